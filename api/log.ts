import { type DestinationStream, type Logger, pino } from "pino";

/** Lines are written when this many bytes have collected, or after this long. A write in the background would cost more. */
const BUFFER = { minLength: 8_192, periodicFlush: 200, sync: true };

export type Log = {
  log: Logger;
  /** Writes what is left. */
  close: () => void;
};

/** A log, on the standard output by default: there, some lines at a time. */
export const createLog = (level: string, output?: DestinationStream): Log => {
  if (output) return { log: pino({ level, base: undefined }, output), close: () => {} };
  const destination = pino.destination({ dest: 1, ...BUFFER });
  return { log: pino({ level, base: undefined }, destination), close: () => destination.flushSync() };
};
