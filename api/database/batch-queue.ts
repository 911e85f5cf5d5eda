import { askOneByOne, type QueuedQuestion, rejectIfLate } from "./ask-one-by-one.ts";
import { withDeadline } from "./deadline.ts";
import { overloaded } from "./problems.ts";

/** A larger batch saves little, and leaves this process idle while Postgres works on it. */
export const MAX_BATCH_SIZE = 32;
/** Maximum questions in the queue. Beyond it, an answer would come too late to be useful. */
const MAX_QUEUE_SIZE = 10_000;
/** Maximum batches in flight. */
const MAX_IN_FLIGHT = 3;
/** Maximum time that the next batch waits for the newest one in flight. Batches are usually many times faster. */
const MAX_BLOCK_MS = 20;
/** Ask the questions of a batch one by one if it takes longer: one of them may be slow. */
const BATCH_TIMEOUT_MS = 300;

/** Load of all batch queues of a kind, for metrics. */
export class BatchLoad {
  /** Questions in the queues. */
  waiting = 0;

  /** @param observeSize - called with the number of questions in each statement */
  constructor(readonly observeSize: (questions: number) => void = () => {}) {}
}

type Batch<Question, Answer> = {
  questions: readonly QueuedQuestion<Question, Answer>[];
  unblockTimer?: NodeJS.Timeout;
};

/**
 * Group commit for reads: a lone question is asked at once; questions that arrive in one turn of the event loop, or
 * while a batch is in flight, share a statement. No wait when idle, few statements when busy.
 *
 * States of the queue, by the batches in flight:
 * - idle: none. The next batch starts now if questions come one at a time, else after this turn of the event loop.
 * - blocked: the newest batch blocks the next one until it is settled, at most 20 ms.
 * - unblocked: all are slow. The next batch starts, and blocks its successor.
 * - full: three. The next batch starts when one is settled.
 *
 * A batch that fails or takes 300 ms is asked again one by one: a failing or slow query never fails the others in its
 * batch.
 */
export class BatchQueue<Question, Answer> {
  readonly #ask: (questions: readonly Question[]) => Promise<readonly Answer[]>;
  readonly #load: BatchLoad;
  readonly #queue: QueuedQuestion<Question, Answer>[] = [];
  #inFlight = 0;
  #blocking: Batch<Question, Answer> | null = null;
  /** True while questions come one at a time: waiting for more would only add latency. */
  #isQuiet = true;

  constructor(ask: (questions: readonly Question[]) => Promise<readonly Answer[]>, load: BatchLoad) {
    this.#ask = ask;
    this.#load = load;
  }

  answer(question: Question): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#queue.length >= MAX_QUEUE_SIZE) {
        reject(overloaded("Too many requests are waiting for an answer. Try again in a moment."));
        return;
      }
      this.#queue.push({ question, queuedAt: performance.now(), resolve, reject });
      this.#load.waiting++;
      if (this.#queue.length > 1) return;
      if (this.#isQuiet && this.#inFlight === 0) this.#startNext();
      // After the requests that have arrived by now are read.
      else setImmediate(() => this.#startNext());
    });
  }

  #startNext(): void {
    if (this.#inFlight >= MAX_IN_FLIGHT || this.#queue.length === 0) return;
    const blocking = this.#blocking;
    if (blocking) {
      blocking.unblockTimer ??= setTimeout(() => this.#unblock(blocking), MAX_BLOCK_MS);
      return;
    }
    const batch = { questions: this.#dequeue() };
    this.#isQuiet = batch.questions.length === 1 && this.#queue.length === 0;
    this.#inFlight++;
    this.#blocking = batch;
    this.#settle(batch);
    // Starts the timer if questions are left in the queue.
    this.#startNext();
  }

  #dequeue(): QueuedQuestion<Question, Answer>[] {
    const next = this.#queue.splice(0, MAX_BATCH_SIZE);
    this.#load.waiting -= next.length;
    return next.filter((queued) => !rejectIfLate(queued));
  }

  #unblock(batch: Batch<Question, Answer>): void {
    clearTimeout(batch.unblockTimer);
    if (this.#blocking === batch) this.#blocking = null;
    this.#startNext();
  }

  async #settle(batch: Batch<Question, Answer>): Promise<void> {
    const { questions } = batch;
    const together = this.#askTogether(questions);
    try {
      await (questions.length > 1 ? withDeadline(BATCH_TIMEOUT_MS, together, batchTimeout) : together);
    } catch (error) {
      if (questions.length > 1) await askOneByOne(questions, together, (queued) => this.#askTogether([queued]));
      else for (const { reject } of questions) reject(error);
    } finally {
      this.#inFlight--;
      if (this.#queue.length > 0) this.#isQuiet = false;
      this.#unblock(batch);
    }
  }

  async #askTogether(questions: readonly QueuedQuestion<Question, Answer>[]): Promise<void> {
    if (questions.length === 0) return;
    this.#load.observeSize(questions.length);
    const answers = await this.#ask(questions.map(({ question }) => question));
    if (answers.length !== questions.length) {
      throw new Error(`${answers.length} answers to ${questions.length} questions.`);
    }
    for (const [index, answer] of answers.entries()) questions[index]?.resolve(answer);
  }
}

const batchTimeout = () => new Error("The batch took too long.");
