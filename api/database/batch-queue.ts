import { Problem } from "../problem.ts";
import { withDeadline } from "./deadline.ts";
import { overloaded } from "./problems.ts";

/** A larger batch saves little, and leaves this process idle while Postgres works on it. */
export const MAX_BATCH_SIZE = 32;
/** Start the next batch if this one takes longer. Batches are usually many times faster. */
const BLOCK_MS = 20;
/** Ask the questions of a batch one by one if it takes longer: one of them may be slow. */
const BATCH_TIMEOUT_MS = 300;
/** Maximum batches in flight. Also maximum questions in flight while a batch is asked one by one. */
const MAX_IN_FLIGHT = 3;
/** Reject a question that has waited this long. */
const MAX_WAIT_MS = 1_400;

/** Load of all batch queues of a kind, for metrics. */
export class BatchLoad {
  /** Questions in the queues. */
  waiting = 0;

  /** @param observeSize - called with the number of questions in each statement */
  constructor(readonly observeSize: (questions: number) => void = () => {}) {}
}

type Queued<Question, Answer> = {
  question: Question;
  queuedAt: number;
  resolve: (answer: Answer) => void;
  reject: (error: unknown) => void;
};

/**
 * Group commit for reads: a lone question is asked at once, and questions that arrive while a batch is in flight share
 * the next statement. A slow batch delays the next one by 20 ms. A batch that fails or takes 300 ms is asked again one
 * by one: a failing or slow query never fails the others in its batch.
 */
export class BatchQueue<Question, Answer> {
  readonly #ask: (questions: readonly Question[]) => Promise<readonly Answer[]>;
  readonly #load: BatchLoad;
  /** Bounded by the turns that callers take: see api/middleware/take-turns.ts. */
  readonly #queue: Queued<Question, Answer>[] = [];
  readonly #inFlight = new Set<Promise<void>>();
  #isRunning = false;
  /** True while questions come several at a time. */
  #isBusy = false;

  constructor(ask: (questions: readonly Question[]) => Promise<readonly Answer[]>, load: BatchLoad) {
    this.#ask = ask;
    this.#load = load;
  }

  answer(question: Question): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ question, queuedAt: performance.now(), resolve, reject });
      this.#load.waiting++;
      if (!this.#isRunning) this.#run();
    });
  }

  /** Asks one batch after another until the queue is empty. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    // The requests that have arrived by now share the first statement. A lone one does not wait for others.
    if (this.#isBusy) await new Promise(setImmediate);
    while (this.#queue.length > 0) {
      const next = this.#queue.splice(0, MAX_BATCH_SIZE);
      this.#load.waiting -= next.length;
      const batch = next.filter((queued) => !rejectIfLate(queued));
      if (batch.length === 0) continue;
      this.#isBusy = batch.length > 1;
      const settled = this.#settle(batch).finally(() => this.#inFlight.delete(settled));
      this.#inFlight.add(settled);
      await withDeadline(BLOCK_MS, settled, tooSlow).catch(() => {});
      if (this.#inFlight.size >= MAX_IN_FLIGHT) await Promise.race(this.#inFlight);
    }
    this.#isRunning = false;
  }

  async #settle(batch: readonly Queued<Question, Answer>[]): Promise<void> {
    const together = this.#askTogether(batch);
    try {
      await (batch.length > 1 ? withDeadline(BATCH_TIMEOUT_MS, together, tooSlow) : together);
    } catch (error) {
      if (batch.length > 1) await this.#askOneByOne(batch, together);
      else for (const { reject } of batch) reject(error);
    }
  }

  /** @param together - the batch in flight; once it is answered, no more of its questions are asked */
  async #askOneByOne(batch: readonly Queued<Question, Answer>[], together: Promise<void>): Promise<void> {
    const remaining = batch.values();
    let isAnswered = false;
    together.then(
      () => {
        isAnswered = true;
      },
      () => {},
    );
    let hasSucceeded = false;
    let failure: unknown;
    const askRemaining = async () => {
      for (const queued of remaining) {
        if (isAnswered || rejectIfLate(queued)) continue;
        try {
          await this.#askTogether([queued]);
          hasSucceeded = true;
        } catch (error) {
          queued.reject(error);
          failure = error;
          if (!hasSucceeded) return;
        }
      }
    };
    await Promise.all(Array.from({ length: MAX_IN_FLIGHT }, askRemaining));
    // After this many failures without a success, all others would fail too.
    for (const { reject } of remaining) {
      reject(failure instanceof Problem ? failure : overloaded("Lookups are failing. Try again in a moment."));
    }
  }

  async #askTogether(batch: readonly Queued<Question, Answer>[]): Promise<void> {
    this.#load.observeSize(batch.length);
    const answers = await this.#ask(batch.map(({ question }) => question));
    if (answers.length !== batch.length) throw new Error(`${answers.length} answers to ${batch.length} questions.`);
    for (const [index, answer] of answers.entries()) batch[index]?.resolve(answer);
  }
}

const rejectIfLate = <Question, Answer>({ queuedAt, reject }: Queued<Question, Answer>): boolean => {
  const isLate = performance.now() > queuedAt + MAX_WAIT_MS;
  if (isLate) reject(overloaded("The answer took too long to find. Try again in a moment."));
  return isLate;
};

const tooSlow = () => new Error("The batch took too long.");
