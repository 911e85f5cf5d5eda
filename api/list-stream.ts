import { type Rendering, renderDelegation } from "./delegation-json.ts";
import type { List } from "./queries/list-delegations.ts";

const ROWS_AT_ONCE = 250;
/** A reader that takes nothing for so long gives up its place. */
const IDLE_MS = 30_000;

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
  let isFirst = true;
  let idle: NodeJS.Timeout | undefined;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        clearTimeout(idle);
        try {
          const delegations = await list.read(ROWS_AT_ONCE);
          const rows = delegations.map((delegation) => renderDelegation(delegation, rendering)).join(",");
          const separator = isFirst ? "[" : rows && ",";
          isFirst = false;
          controller.enqueue(encoder.encode(`${separator}${rows || "]"}`));
          if (rows === "") {
            controller.close();
            await list.close();
            return;
          }
        } catch (error) {
          breakOff(error);
          return;
        }
        idle = setTimeout(() => breakOff(new Error("The reader has stopped reading.")), IDLE_MS);
      },
      // Also when the connection ends, from either side.
      async cancel() {
        clearTimeout(idle);
        await list.close();
      },
    },
    { highWaterMark: 0 },
  );
};
