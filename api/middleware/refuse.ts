import { Problem } from "../problem.ts";
import { createTurnQueue } from "../slices.ts";

const waitToRefuse = createTurnQueue();

/** Throws a problem. All refusals together take one in a turn of the event loop: a flood of them delays itself. */
export const refuse = async (problem: Problem): Promise<never> => {
  await waitToRefuse();
  throw problem;
};

/** @param resetMs - time until requests are admitted again */
export const tooManyRequests = (resetMs: number, reason: string): Problem => {
  const seconds = Math.ceil(resetMs / 1000);
  return new Problem("rate-limited", `${reason} Try again in ${seconds} s.`, {
    headers: { "Retry-After": String(seconds) },
  });
};
