import { existsSync } from "node:fs";
import { join } from "node:path";

/** Settings from files, for whoever does not set variables: what is set already counts. */
export const loadEnvFiles = (directory: string) => {
  for (const name of [".env.local", ".env"]) {
    const file = join(directory, name);
    if (existsSync(file)) process.loadEnvFile(file);
  }
};

/**
 * Runs a program until it ends or is asked to: SIGINT and SIGTERM abort the signal, and the program
 * cleans up. An error is shown by its message, never by its stack, and ends with code 1.
 */
export const runUntilStopped = async (run: (signal: AbortSignal) => Promise<void>) => {
  const stopping = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => stopping.abort());
  }
  try {
    await run(stopping.signal);
    process.exitCode = 0;
  } catch (error) {
    if (!stopping.signal.aborted) {
      console.error(error instanceof Error ? describe(error) : error);
      process.exitCode = 1;
    }
  }
  // Whatever a library left open must not keep the process.
  process.exit();
};

/** An error's message with those of its causes. */
const describe = (error: Error): string =>
  error.cause instanceof Error ? `${error.message}\n  because: ${describe(error.cause)}` : error.message;
