import { type Rendering, renderDelegations } from "./delegation-json.ts";
import type { List } from "./queries/list-delegations.ts";

const ROWS_AT_ONCE = 250;
/** A reader may take this long, and this much longer for each row that it has taken; then it gives up its place. */
const PATIENCE_MS = 30_000;
const PATIENCE_PER_ROW_MS = 1;

/**
 * A list as it is read, at the reader's pace.
 * @param breakOff - called with the reason when it cannot go on. It has to end the connection: for a stream that
 * fails, the server would write the reason behind the rows.
 */
export const streamList = (
  list: List,
  rendering: Rendering,
  breakOff: (reason: unknown) => void,
): ReadableStream<Uint8Array> => {
  const startedAt = Date.now();
  const encoder = new TextEncoder();
  let sent = 0;
  let timer: NodeJS.Timeout | undefined;
  const setTimer = () => {
    clearTimeout(timer);
    const patience = startedAt + PATIENCE_MS + sent * PATIENCE_PER_ROW_MS - Date.now();
    timer = setTimeout(() => breakOff(new Error("The reader is too slow.")), patience);
  };
  let isClosed = false;
  const close = () => {
    isClosed = true;
    clearTimeout(timer);
    return list.close();
  };

  setTimer();
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const delegations = await list.read(ROWS_AT_ONCE);
          const rows = renderDelegations(delegations, rendering);
          const separator = sent === 0 ? "[" : rows && ",";
          sent += delegations.length;
          setTimer();
          controller.enqueue(encoder.encode(`${separator}${rows || "]"}`));
          if (rows !== "") return;
          await close();
          controller.close();
        } catch (error) {
          // Whoever was to read it may have left.
          if (!isClosed) breakOff(error);
          await close();
        }
      },
      // Also when its connection was ended.
      cancel: close,
    },
    // One part ahead of the reader, no more.
    { highWaterMark: 1 },
  );
};
