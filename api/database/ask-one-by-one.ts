import { Problem } from "../problem.ts";
import { overloaded } from "./problems.ts";

/** Questions in flight at a time: a slow one does not block the rest. */
const LANES = 2;
/** After this many failures without a success, treat the database as down. */
const MAX_FAILURES = 3;
/** Reject a question that has waited this long. */
const MAX_WAIT_MS = 1_400;

export type QueuedQuestion<Question, Answer> = {
  question: Question;
  queuedAt: number;
  resolve: (answer: Answer) => void;
  reject: (error: unknown) => void;
};

/**
 * Asks the questions of a failed or slow batch again, one by one.
 * @param together - the batch, which may still be answered: then no other question is asked again
 */
export const askOneByOne = async <Question, Answer>(
  batch: readonly QueuedQuestion<Question, Answer>[],
  together: Promise<void>,
  ask: (queued: QueuedQuestion<Question, Answer>) => Promise<void>,
): Promise<void> => {
  const remaining = batch.values();
  let isAnswered = false;
  let hasSucceeded = false;
  const failures: unknown[] = [];
  together.then(
    () => {
      isAnswered = true;
    },
    () => {},
  );
  const runLane = async () => {
    for (const queued of remaining) {
      if (isAnswered) return;
      if (rejectIfLate(queued)) continue;
      if (failures.length >= MAX_FAILURES && !hasSucceeded) {
        const [first] = failures;
        queued.reject(first instanceof Problem ? first : overloaded("Lookups are failing. Try again in a moment."));
        continue;
      }
      try {
        await ask(queued);
        hasSucceeded = true;
      } catch (error) {
        failures.push(error);
        queued.reject(error);
      }
    }
  };
  await Promise.all(Array.from({ length: LANES }, runLane));
};

export const rejectIfLate = <Question, Answer>({ queuedAt, reject }: QueuedQuestion<Question, Answer>): boolean => {
  const isLate = performance.now() > queuedAt + MAX_WAIT_MS;
  if (isLate) reject(overloaded("The answer took too long to find. Try again in a moment."));
  return isLate;
};
