import { setTimeout as sleep } from "node:timers/promises";

const POLL_MS = 200;

/** Returns true if a URL answers without an error status. */
export const isUp = (url: string): Promise<boolean> =>
  fetch(url).then(
    ({ ok }) => ok,
    () => false,
  );

/** Resolves when a URL answers without an error status. Throws after the timeout. */
export const untilUp = async (url: string, timeoutMs = Number.POSITIVE_INFINITY): Promise<void> => {
  const deadline = Date.now() + timeoutMs;
  while (!(await isUp(url))) {
    if (Date.now() > deadline) throw new Error(`${url} did not answer within ${timeoutMs / 1000} s.`);
    await sleep(POLL_MS);
  }
};
