import { Readable } from "node:stream";
import { type Rendering, renderDelegations } from "./delegation-json.ts";
import type { List } from "./queries/list-delegations.ts";

const ROWS_AT_ONCE = 250;
/** A reader may take this long, and this much longer for each row that it has taken; then it gives up its place. */
const PATIENCE_MS = 30_000;
const PATIENCE_PER_ROW_MS = 1;

/**
 * A list as it is read, at the reader's pace. If it breaks off, so must the connection: half a list is no
 * valid JSON, and nobody takes it for the whole.
 * @param onBreak - is told why it broke off; not if the reader has left
 */
export const streamList = (list: List, rendering: Rendering, onBreak: (reason: unknown) => void): Readable => {
  const startedAt = Date.now();
  let sent = 0;
  let timer: NodeJS.Timeout | undefined;
  const setTimer = () => {
    clearTimeout(timer);
    const patience = startedAt + PATIENCE_MS + sent * PATIENCE_PER_ROW_MS - Date.now();
    timer = setTimeout(() => stream.destroy(new Error("The reader is too slow.")), patience);
  };

  const stream = new Readable({
    // One part ahead of the reader, no more.
    highWaterMark: 1,
    async read() {
      try {
        const delegations = await list.read(ROWS_AT_ONCE);
        const rows = renderDelegations(delegations, rendering);
        const separator = sent === 0 ? "[" : rows && ",";
        sent += delegations.length;
        setTimer();
        this.push(`${separator}${rows || "]"}`);
        if (rows === "") this.push(null);
      } catch (error) {
        this.destroy(error instanceof Error ? error : new Error(String(error)));
      }
    },
    destroy(error, done) {
      clearTimeout(timer);
      if (error && !isGone(error)) onBreak(error);
      list.close().then(() => done(error), done);
    },
  });
  setTimer();
  return stream;
};

/** Whoever was to read it has closed the connection. */
const isGone = (error: NodeJS.ErrnoException): boolean => error.code === "ERR_STREAM_PREMATURE_CLOSE";
