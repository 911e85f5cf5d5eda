import { type Logger, pino } from "pino";

/** Request lines are written when this many bytes have collected, */
const BUFFER_BYTES = 8_192;
/** or after this long. */
const BUFFER_MS = 200;

export type Log = {
  log: Logger;
  /** Adds a line of JSON, which is written together with others. */
  addLine: (line: string) => void;
  /** Writes what is left. */
  close: () => void;
};

/** A log, on the standard output by default. Lines of requests are written some at a time, all else at once. */
export const createLog = (
  level: string,
  output: { write: (text: string) => unknown } = pino.destination({ sync: true }),
): Log => {
  let lines = "";
  const write = () => {
    if (lines === "") return;
    output.write(lines);
    lines = "";
  };
  const timer = setInterval(write, BUFFER_MS).unref();

  const log = pino(
    { level, base: undefined },
    {
      write: (line: string) => {
        write();
        output.write(line);
      },
    },
  );
  const addLine = (line: string) => {
    lines += `${line}\n`;
    if (lines.length >= BUFFER_BYTES) write();
  };
  const close = () => {
    clearInterval(timer);
    write();
  };
  return { log, addLine, close };
};
