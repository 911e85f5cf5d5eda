import { overloaded } from "./database.ts";
import { withDeadline } from "./deadline.ts";
import { Problem } from "./problem.ts";

/** A batch that takes longer than this, which is many times what is usual, does not keep the next one waiting, */
const HOLD_UP_MS = 20;
/** up to so many. */
const CONCURRENT = 3;
/** A larger one would save little, and leave this process with nothing to do while Postgres works on it. */
export const LARGEST_BATCH = 32;
/** Questions that may wait. Beyond that, an answer would come too late to be of use. */
const LONGEST_QUEUE = 10_000;
/** A batch that takes this long is not waited for: one of its questions may be what takes so long. */
const PATIENCE_MS = 300;
/** Questions of a batch that are asked again at the same time: one that is slow holds up no other. */
const LANES = 2;
/** When this many questions of a batch have failed alone, and none was answered, it is not they that are the trouble. */
const MOST_FAILURES = 3;
/** A question that has waited this long is given up. */
const LONGEST_WAIT_MS = 1_400;

/** How much batches of a kind have to do. */
export class BatchLoad {
  /** Questions that wait to be asked. */
  waiting = 0;

  /** @param observeSize - told how many questions were asked together, each time */
  constructor(readonly observeSize: (questions: number) => void = () => {}) {}
}

type Waiting<Question, Answer> = {
  question: Question;
  askedAt: number;
  resolve: (answer: Answer) => void;
  reject: (error: unknown) => void;
};

/**
 * Group commit for reads: a question that comes alone is asked at once; those that arrive together, in one
 * turn of the event loop or while others are under way, go together. No wait when idle, few statements when busy.
 *
 * Those of a batch that fails, or takes too long, are asked again one by one: none pays for another's trouble.
 */
export class Batch<Question, Answer> {
  readonly #ask: (questions: readonly Question[]) => Promise<readonly Answer[]>;
  readonly #load: BatchLoad;
  #waiting: Waiting<Question, Answer>[] = [];
  #underWay = 0;
  /** Whether questions come one at a time: then there is nothing to wait for. */
  #isQuiet = true;
  /** The batch that keeps the next one waiting. */
  #holding: readonly Waiting<Question, Answer>[] | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(ask: (questions: readonly Question[]) => Promise<readonly Answer[]>, load: BatchLoad) {
    this.#ask = ask;
    this.#load = load;
  }

  answer(question: Question): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length >= LONGEST_QUEUE) {
        reject(overloaded("Too many requests are waiting for an answer. Try again in a moment."));
        return;
      }
      this.#waiting.push({ question, askedAt: performance.now(), resolve, reject });
      this.#load.waiting++;
      if (this.#waiting.length > 1) return;
      if (this.#isQuiet && this.#underWay === 0) this.#askNext();
      // When all that has arrived by now has been read.
      else setImmediate(() => this.#askNext());
    });
  }

  #askNext(): void {
    if (this.#underWay >= CONCURRENT || this.#waiting.length === 0) return;
    const holding = this.#holding;
    if (holding) {
      this.#timer ??= setTimeout(() => this.#letGo(holding), HOLD_UP_MS);
      return;
    }
    const next = this.#waiting.splice(0, LARGEST_BATCH);
    this.#load.waiting -= next.length;
    const batch = next.filter((waiting) => !giveUpIfLate(waiting));
    this.#isQuiet = batch.length === 1 && this.#waiting.length === 0;
    this.#underWay++;
    this.#holding = batch;
    this.#settle(batch);
    // Those that are left wait for this one, but not for long.
    this.#askNext();
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
    const asking = this.#askTogether(batch);
    try {
      await (batch.length > 1 ? withDeadline(PATIENCE_MS, asking, tooSlow) : asking);
    } catch (error) {
      if (batch.length > 1) await this.#settleOneByOne(batch, asking);
      else for (const { reject } of batch) reject(error);
    } finally {
      this.#underWay--;
      if (this.#waiting.length > 0) this.#isQuiet = false;
      this.#letGo(batch);
    }
  }

  async #askTogether(batch: readonly Waiting<Question, Answer>[]): Promise<void> {
    if (batch.length === 0) return;
    this.#load.observeSize(batch.length);
    const answers = await this.#ask(batch.map(({ question }) => question));
    if (answers.length !== batch.length) throw new Error(`${answers.length} answers to ${batch.length} questions.`);
    for (const [index, answer] of answers.entries()) batch[index]?.resolve(answer);
  }

  /** @param asking - the answers to all of them, which may yet come: then nobody need ask again */
  async #settleOneByOne(batch: readonly Waiting<Question, Answer>[], asking: Promise<void>): Promise<void> {
    const left = batch.values();
    let isAnswered = false;
    let hasAnswered = false;
    const failures: unknown[] = [];
    asking.then(
      () => {
        isAnswered = true;
      },
      () => {},
    );
    const askOneByOne = async () => {
      for (const waiting of left) {
        if (isAnswered) return;
        if (giveUpIfLate(waiting)) continue;
        if (failures.length >= MOST_FAILURES && !hasAnswered) {
          waiting.reject(failures[0] instanceof Problem ? failures[0] : overloaded("Nothing can be looked up now."));
          continue;
        }
        try {
          await this.#askTogether([waiting]);
          hasAnswered = true;
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

/** Rejects a question that has waited so long that nobody is to wait for its answer, too. */
const giveUpIfLate = <Question, Answer>({ askedAt, reject }: Waiting<Question, Answer>): boolean => {
  const isLate = performance.now() > askedAt + LONGEST_WAIT_MS;
  if (isLate) reject(overloaded("The answer took too long to find. Try again in a moment."));
  return isLate;
};
