import { setTimeout as sleep } from "node:timers/promises";

const FIRST_RESTART_MS = 1_000;
const LONGEST_RESTART_MS = 30_000;

type Options = {
  /** Runs the part until it ends. Returns the reason. */
  run: () => Promise<string>;
  log: (message: string) => void;
  signal: AbortSignal;
};

/** Runs a part until the signal is aborted. Starts it again when it ends, after a pause that grows with each failure. */
export const keepRunning = async ({ run, log, signal }: Options): Promise<void> => {
  let restartMs = FIRST_RESTART_MS;
  while (!signal.aborted) {
    const startedAt = Date.now();
    const reason = await run();
    if (signal.aborted) return;

    if (Date.now() - startedAt > LONGEST_RESTART_MS) restartMs = FIRST_RESTART_MS;
    log(`${reason}; starting it again in ${restartMs / 1000} s.`);
    await sleep(restartMs, undefined, { signal }).catch(() => {});
    restartMs = Math.min(restartMs * 2, LONGEST_RESTART_MS);
  }
};
