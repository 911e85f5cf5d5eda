import type { Socket } from "node:net";
import { renderInSlices } from "../slices.ts";
import type { OpenList } from "./list-delegations.ts";
import type { ListRow } from "./list-directions.ts";

const CHUNK_ROWS = 250;
/** Time for a reader to take the list, plus time for each row that it has taken. A slower reader loses its connection. */
const BASE_TIMEOUT_MS = 30_000;
const TIMEOUT_PER_ROW_MS = 1;

/**
 * Streams a list at the reader's pace.
 * @param abort - called with the reason of a failure. It has to close the connection: the server would write the error
 * of a failed stream after the rows.
 */
export const streamList = (
  list: OpenList,
  render: (row: ListRow) => string,
  socket: Socket,
  abort: (reason: unknown) => void,
): ReadableStream<Uint8Array> => {
  const startedAt = Date.now();
  const encoder = new TextEncoder();
  let sentRows = 0;
  let timer: NodeJS.Timeout | undefined;
  const resetTimer = () => {
    clearTimeout(timer);
    const remainingMs = startedAt + BASE_TIMEOUT_MS + sentRows * TIMEOUT_PER_ROW_MS - Date.now();
    timer = setTimeout(() => abort(new Error("The reader is too slow.")), remainingMs);
  };
  let isClosed = false;
  const close = () => {
    isClosed = true;
    clearTimeout(timer);
    socket.off("close", close);
    return list.close();
  };
  // Nothing cancels the stream of a pipelined request that waits for the answer before it.
  socket.once("close", close);

  resetTimer();
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const rows = await list.read(CHUNK_ROWS);
          const json = await renderInSlices(rows, render);
          const separator = sentRows === 0 ? "[" : json && ",";
          sentRows += rows.length;
          resetTimer();
          controller.enqueue(encoder.encode(`${separator}${json || "]"}`));
          if (json !== "") return;
          await close();
          controller.close();
        } catch (error) {
          // A reader that left has closed the list.
          if (!isClosed) abort(error);
          await close();
        }
      },
      cancel: close,
    },
    // Read one chunk ahead of the reader.
    { highWaterMark: 1 },
  );
};
