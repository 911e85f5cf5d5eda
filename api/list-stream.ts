import { type Rendering, renderDelegation } from "./delegation-json.ts";
import type { Freshness } from "./queries/freshness.ts";
import type { List, Page } from "./queries/list-delegations.ts";

const ROWS_AT_ONCE = 1000;
/** A reader that takes nothing for so long gives up its place. */
const IDLE_MS = 30_000;

/** Sends a list as it is read, at the reader's pace. A list that breaks off is no valid JSON. */
export const streamList = async (
  list: List,
  rendering: Rendering,
  headersOf: (freshness: Freshness | null) => Record<string, string>,
): Promise<Response> => {
  let page: Page;
  let headers: Record<string, string>;
  try {
    page = await list.read(ROWS_AT_ONCE);
    headers = headersOf(page.freshness);
  } catch (error) {
    await list.close();
    throw error;
  }

  const encoder = new TextEncoder();
  let isFirst = true;
  let idle: NodeJS.Timeout | undefined;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        clearTimeout(idle);
        const rows = page.delegations.map((delegation) => renderDelegation(delegation, rendering)).join(",");
        if (rows === "") {
          controller.enqueue(encoder.encode(isFirst ? "[]" : "]"));
          controller.close();
          await list.close();
          return;
        }
        controller.enqueue(encoder.encode(`${isFirst ? "[" : ","}${rows}`));
        isFirst = false;
        try {
          page = await list.read(ROWS_AT_ONCE);
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
  return new Response(body, { status: 200, headers });
};
