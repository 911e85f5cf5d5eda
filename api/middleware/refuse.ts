import { Problem } from "../problem.ts";
import { createTurnQueue } from "../slices.ts";

/** Refusals in a turn of the event loop, of all clients together. A flood of them delays itself. */
const waitToRefuse = createTurnQueue(2);

/** Throws a problem when it is its turn. */
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
