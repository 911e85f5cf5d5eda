import { overloaded } from "./database.ts";
import { within } from "./within.ts";

/** A batch that takes longer than this, which is many times what is usual, does not keep the next one waiting, */
const HOLD_UP_MS = 20;
/** up to so many. */
const CONCURRENT = 3;
/** A larger one would save little, and leave this process with nothing to do while Postgres works on it. */
const LARGEST_BATCH = 32;
/** Questions that may wait. Beyond that, an answer would come too late to be of use. */
const LONGEST_QUEUE = 10_000;
/** A batch that takes this long is not waited for: one of its questions may be what takes so long. */
const PATIENCE_MS = 300;
/** Questions of a batch that are asked again at the same time: one that is slow holds up no other. */
const LANES = 2;
/** When this many questions of a batch have failed alone, it is not they that are the trouble. */
const MOST_FAILURES = 2;

type Waiting<Question, Answer> = {
  question: Question;
  resolve: (answer: Answer) => void;
  reject: (error: unknown) => void;
};

/**
 * Group commit for reads: questions that arrive together, in one turn of the event loop or while others
 * are under way, go together in one statement. No wait when idle, few statements when busy.
 *
 * Those of a batch that fails, or takes too long, are asked again one by one: none pays for another's trouble.
 */
export class Batch<Question, Answer> {
  readonly #ask: (questions: readonly Question[]) => Promise<readonly Answer[]>;
  #waiting: Waiting<Question, Answer>[] = [];
  #underWay = 0;
  /** The batch that keeps the next one waiting. */
  #holding: readonly Waiting<Question, Answer>[] | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(ask: (questions: readonly Question[]) => Promise<readonly Answer[]>) {
    this.#ask = ask;
  }

  answer(question: Question): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length >= LONGEST_QUEUE) {
        reject(overloaded("Too many requests are waiting for an answer. Try again in a moment."));
        return;
      }
      // When all that has arrived by now has been read.
      if (this.#waiting.length === 0) setImmediate(() => this.#askNext());
      this.#waiting.push({ question, resolve, reject });
    });
  }

  #askNext(): void {
    if (this.#underWay >= CONCURRENT || this.#waiting.length === 0) return;
    const holding = this.#holding;
    if (holding) {
      this.#timer ??= setTimeout(() => this.#letGo(holding), HOLD_UP_MS);
      return;
    }
    const batch = this.#waiting.splice(0, LARGEST_BATCH);
    this.#underWay++;
    this.#holding = batch;
    this.#settle(batch).finally(() => {
      this.#underWay--;
      this.#letGo(batch);
    });
  }

  #letGo(batch: readonly Waiting<Question, Answer>[]): void {
    if (this.#holding === batch) {
      this.#holding = null;
      clearTimeout(this.#timer);
      this.#timer = undefined;
    }
    this.#askNext();
  }

  async #settle(batch: readonly Waiting<Question, Answer>[]): Promise<void> {
    try {
      const asking = this.#askTogether(batch);
      const answers = await (batch.length === 1 ? asking : within(PATIENCE_MS, asking, tooSlow));
      for (const [index, answer] of answers.entries()) batch[index]?.resolve(answer);
    } catch (error) {
      if (batch.length === 1) batch[0]?.reject(error);
      else await this.#settleOneByOne(batch);
    }
  }

  async #askTogether(batch: readonly Waiting<Question, Answer>[]): Promise<readonly Answer[]> {
    const answers = await this.#ask(batch.map(({ question }) => question));
    if (answers.length !== batch.length) throw new Error(`${answers.length} answers to ${batch.length} questions.`);
    return answers;
  }

  async #settleOneByOne(batch: readonly Waiting<Question, Answer>[]): Promise<void> {
    const left = batch.values();
    const failures: unknown[] = [];
    const askOneByOne = async () => {
      for (const waiting of left) {
        try {
          if (failures.length >= MOST_FAILURES) throw failures[0];
          for (const answer of await this.#askTogether([waiting])) waiting.resolve(answer);
        } catch (error) {
          failures.push(error);
          waiting.reject(error);
        }
      }
    };
    await Promise.all(Array.from({ length: LANES }, askOneByOne));
  }
}

const tooSlow = () => new Error("The batch took too long.");
