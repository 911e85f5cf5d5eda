import { type Logger, pino } from "pino";

/** So many bytes are written at once, */
const WRITTEN_AT_ONCE = 8_192;
/** or what there is by then. */
const WRITTEN_AFTER_MS = 200;

export type Log = {
  log: Logger;
  /** Adds a line of JSON, which is written together with others. */
  addLine: (line: string) => void;
};

/** A log on the standard output. Lines of requests are written some at a time, all else at once. */
export const createLog = (level: string): Log => {
  const output = pino.destination({ sync: true });
  let lines = "";
  const write = () => {
    if (lines === "") return;
    output.write(lines);
    lines = "";
  };
  setInterval(write, WRITTEN_AFTER_MS).unref();
  process.once("exit", write);

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
    if (lines.length >= WRITTEN_AT_ONCE) write();
  };
  return { log, addLine };
};
