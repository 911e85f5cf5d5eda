import { overloaded } from "./database.ts";

/** Statements of one kind that may be under way at the same time. */
const CONCURRENT = 2;
const LARGEST_BATCH = 500;
/** Questions that may wait. Beyond that, an answer would come too late to be of use. */
const LONGEST_QUEUE = 10_000;

type Waiting<Question, Answer> = {
  question: Question;
  resolve: (answer: Answer) => void;
  reject: (error: unknown) => void;
};

/**
 * Group commit for reads: a question that finds nothing under way is asked at once; those that arrive
 * meanwhile go together in one statement. No wait when idle, few statements when busy.
 */
export class Batch<Question, Answer> {
  readonly #ask: (questions: readonly Question[]) => Promise<readonly Answer[]>;
  #waiting: Waiting<Question, Answer>[] = [];
  #underWay = 0;

  constructor(ask: (questions: readonly Question[]) => Promise<readonly Answer[]>) {
    this.#ask = ask;
  }

  answer(question: Question): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length >= LONGEST_QUEUE) {
        reject(overloaded("Too many requests are waiting for an answer. Try again in a moment."));
        return;
      }
      this.#waiting.push({ question, resolve, reject });
      this.#askNext();
    });
  }

  #askNext(): void {
    while (this.#underWay < CONCURRENT && this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, LARGEST_BATCH);
      this.#underWay++;
      this.#settle(batch).finally(() => {
        this.#underWay--;
        this.#askNext();
      });
    }
  }

  async #settle(batch: readonly Waiting<Question, Answer>[]): Promise<void> {
    try {
      const answers = await this.#ask(batch.map(({ question }) => question));
      if (answers.length !== batch.length) throw new Error(`${answers.length} answers to ${batch.length} questions.`);
      for (const [index, answer] of answers.entries()) batch[index]?.resolve(answer);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}
