import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { platform } from "node:os";
import { dirname, join } from "node:path";

/** Loads .env.local and .env. Variables that are already set take precedence. */
export const loadEnvFiles = (directory: string) => {
  for (const name of [".env.local", ".env"]) {
    const file = join(directory, name);
    if (existsSync(file)) process.loadEnvFile(file);
  }
};

/**
 * Runs a program until it returns or is stopped. SIGINT, SIGTERM and SIGHUP abort the signal, and the
 * program cleans up; a second one exits at once. Prints an error's message without its stack and exits
 * with code 1, or with the exit code that the program has set.
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
  // Handles that a library left open would keep the process alive.
  process.exit();
};

/** The levels of log lines, as pino numbers them. */
export const LOG_LEVELS = { info: 30, error: 50 };

/** Prints a message; by default it is information. */
export type Log = (message: string, level?: keyof typeof LOG_LEVELS) => void;

/** Prints a line: plain text to a terminal, JSON otherwise. */
export const logLine: Log = (message, level = "info") =>
  console.log(
    process.stdout.isTTY ? message : JSON.stringify({ level: LOG_LEVELS[level], time: Date.now(), msg: message }),
  );

/** Resolves when the signal is aborted. */
export const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });

/** Settles as the promise does, or rejects as soon as the signal is aborted. */
export const rejectOnAbort = <T>(signal: AbortSignal, promise: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });

/** Joins an error's message with its causes' messages. */
export const describeError = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  // A host with several addresses fails once per address. Node wraps these errors in one without a message.
  const [first] = error instanceof AggregateError ? error.errors : [];
  const message = error.message || (first ? describeError(first) : error.name);
  return error.cause ? `${message}\n  because: ${describeError(error.cause)}` : message;
};

/** Reads the command line of a process. Empty if it has ended, even if it is still listed. */
export const readCommandLine = (pid: number, os = platform()): string =>
  os === "linux"
    ? readIfExists(`/proc/${pid}/cmdline`)
    : spawnSync("ps", ["-ww", "-o", "command=", "-p", String(pid)], { encoding: "utf8" }).stdout;

/** Allows one process at a time to run a script. Ignores the pid file of a process that was killed. */
export const claimPidFile = (pidFile: string, script: string): { release: () => void } => {
  const other = Number(readIfExists(pidFile));
  if (other && readCommandLine(other).includes(script)) {
    throw new Error(`It is running already, as process ${other}. Stop that process first.`);
  }
  mkdirSync(dirname(pidFile), { recursive: true });
  writeFileSync(pidFile, String(process.pid));
  return { release: () => rmSync(pidFile, { force: true }) };
};

const readIfExists = (file: string): string => {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
};
