import { type DestinationStream, type Logger, pino } from "pino";

/** Flushes after this many bytes or milliseconds, synchronously: an asynchronous write would cost more. */
const BUFFER = { minLength: 8_192, periodicFlush: 200, sync: true };

export type ApiLog = {
  log: Logger;
  /** Writes the buffered lines. */
  close: () => void;
};

/** Creates a log: buffered on the standard output, or unbuffered on the given output. */
export const createLog = (level: string, output?: DestinationStream): ApiLog => {
  if (output) return { log: pino({ level, base: undefined }, output), close: () => {} };
  const destination = pino.destination({ dest: 1, ...BUFFER });
  const close = () => {
    // If nobody reads the output any more, this fails and drops the log. flushSync() alone would try again for ever.
    destination.flush();
    destination.flushSync();
  };
  return { log: pino({ level, base: undefined }, destination), close };
};
