import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Settings from files, for whoever does not set variables: what is set already counts. */
export const loadEnvFiles = (directory: string) => {
  for (const name of [".env.local", ".env"]) {
    const file = join(directory, name);
    if (existsSync(file)) process.loadEnvFile(file);
  }
};

/**
 * Runs a program until it ends or is asked to: SIGINT, SIGTERM or SIGHUP abort the signal, and the
 * program cleans up; a second one does not wait for that. An error is shown by its message, never by
 * its stack, and ends with code 1, or with the exit code that the program has set.
 */
export const runUntilStopped = async (run: (signal: AbortSignal) => Promise<void>) => {
  const stopping = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => {
      if (stopping.signal.aborted) process.exit(1);
      stopping.abort();
    });
  }
  try {
    await run(stopping.signal);
  } catch (error) {
    if (!stopping.signal.aborted) {
      console.error(describeError(error));
      process.exitCode ||= 1;
    }
  }
  // Whatever a library left open must not keep the process.
  process.exit();
};

/** Prints a line: as such to a terminal, as JSON to whatever collects logs. */
export const logLine = (message: string) =>
  console.log(process.stdout.isTTY ? message : JSON.stringify({ level: 30, time: Date.now(), msg: message }));

/** Resolves when the signal is aborted. */
export const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });

/** A promise's outcome, or a rejection as soon as the signal is aborted. */
export const orAborted = <T>(signal: AbortSignal, promise: Promise<T>): Promise<T> =>
  Promise.race([
    promise,
    new Promise<never>((_, reject) => {
      if (signal.aborted) reject(signal.reason);
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    }),
  ]);

/** An error's message with those of its causes. */
export const describeError = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  // A host with several addresses fails once for each, under an error without a message.
  const [first] = error instanceof AggregateError ? error.errors : [];
  const message = error.message || (first ? describeError(first) : error.name);
  return error.cause ? `${message}\n  because: ${describeError(error.cause)}` : message;
};

/** Lets one process at a time run a script. The claim of one that was killed does not count. */
export const claim = (pidFile: string, script: string): { release: () => void } => {
  const other = Number(readIfThere(pidFile));
  if (other && readIfThere(`/proc/${other}/cmdline`).includes(script)) {
    throw new Error(`It is running already, as process ${other}. End that one first.`);
  }
  mkdirSync(dirname(pidFile), { recursive: true });
  writeFileSync(pidFile, String(process.pid));
  return { release: () => rmSync(pidFile, { force: true }) };
};

const readIfThere = (file: string): string => {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
};
