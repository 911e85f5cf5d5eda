import { type Rendering, renderDelegation } from "./delegation-json.ts";
import type { List } from "./queries/list-delegations.ts";

const ROWS_AT_ONCE = 250;
/** A reader that takes nothing for so long gives up its place. */
const IDLE_MS = 30_000;

/** Sends a list as it is read, at the reader's pace. A list that breaks off is no valid JSON. */
export const streamList = (list: List, rendering: Rendering): ReadableStream<Uint8Array> => {
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
          await list.close();
          throw error;
        }
        idle = setTimeout(() => {
          controller.error(new Error("The reader has stopped reading."));
          list.close();
        }, IDLE_MS);
      },
      async cancel() {
        clearTimeout(idle);
        await list.close();
      },
    },
    { highWaterMark: 0 },
  );
};
