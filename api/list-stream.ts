import { type Rendering, renderDelegations } from "./delegation-json.ts";
import type { List } from "./queries/list-delegations.ts";

const ROWS_AT_ONCE = 250;
/** A reader may take this long, and this much longer for each row that it has taken; then it gives up its place. */
const PATIENCE_MS = 30_000;
const PATIENCE_PER_ROW_MS = 1;

/**
 * Sends a list as it is read, at the reader's pace.
 * @param breakOff - ends the connection: half a list is no valid JSON, and nobody takes it for the whole
 */
export const streamList = (
  list: List,
  rendering: Rendering,
  breakOff: (reason: unknown) => void,
): ReadableStream<Uint8Array> => {
  const encoder = new TextEncoder();
  const startedAt = Date.now();
  let sent = 0;
  let isOver = false;
  let timer: NodeJS.Timeout | undefined;

  const end = async () => {
    isOver = true;
    clearTimeout(timer);
    await list.close();
  };
  const giveUp = async (reason: unknown) => {
    if (isOver) return;
    breakOff(reason);
    await end();
  };
  const setTimer = () => {
    clearTimeout(timer);
    const patience = startedAt + PATIENCE_MS + sent * PATIENCE_PER_ROW_MS - Date.now();
    timer = setTimeout(() => giveUp(new Error("The reader is too slow.")), patience);
  };
  setTimer();

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const delegations = await list.read(ROWS_AT_ONCE);
          if (isOver) return;
          const rows = renderDelegations(delegations, rendering);
          const separator = sent === 0 ? "[" : rows && ",";
          controller.enqueue(encoder.encode(`${separator}${rows || "]"}`));
          sent += delegations.length;
          setTimer();
          if (rows !== "") return;
          controller.close();
          await end();
        } catch (error) {
          await giveUp(error);
        }
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
};
