import { badParameters } from "../contract/define-parameters.ts";
import type { AskedBlock } from "../contract/parameters.ts";
import type { Database } from "../database/database.ts";
import { type AnsweredBlock, showAnsweredBlock } from "../database/freshness.ts";
import type { CheckQuestion } from "../delegations/check-delegation.ts";
import { Problem } from "../problem.ts";
import { askPerShard, orProblem } from "../shards/ask-per-shard.ts";
import type { Shards } from "../shards/shards.ts";
import { inSlices } from "../slices.ts";
import { answerTogether } from "./bulk-checks.ts";
import { createCheckReader, type ReadCheck } from "./read-check.ts";

/** `true`, `false` or the digits of a balance, or the check's own problem. */
export type Answer = string | Problem;

/** Answers bulk requests. */
export class BulkChecks {
  readonly #database: Database;
  readonly #shards: Shards;
  readonly #readCheck: ReadCheck;

  constructor(database: Database, shards: Shards) {
    this.#database = database;
    this.#shards = shards;
    this.#readCheck = createCheckReader(shards);
  }

  /** Answers checks in their order. A check that is bad, or whose chain cannot be answered for, fails alone. */
  async answer(checks: readonly unknown[], asked: AskedBlock) {
    const read: (CheckQuestion | Problem)[] = [];
    await inSlices(checks, (check) => read.push(orProblem(() => this.#readCheck(check))));
    const questions = read.flatMap((question) => (question instanceof Problem ? [] : [question]));
    requireOneChain(questions, asked);

    const blocks = new Map<number, AnsweredBlock>();
    const answers = await askPerShard({
      parts: questions,
      locate: (question) => {
        const { check, chainId } = question;
        const schema = this.#shards.findSchema(check.version, chainId);
        return [schema, { ...question, block: this.#shards.findBlock(chainId, asked) }];
      },
      ask: async (schema, located) => {
        const { values, freshness } = await answerTogether(this.#database, schema, located);
        const chains = new Map<number, AnsweredBlock | Problem>();
        for (const { chainId, block } of located) {
          const findBlock = () =>
            showAnsweredBlock(
              this.#shards.requireFresh(chainId, freshness.get(chainId) ?? null, { ...asked, block }),
              block,
            );
          if (!chains.has(chainId)) chains.set(chainId, orProblem(findBlock));
        }
        return { values, chains };
      },
      read: ({ values, chains }, { chainId }, index): Answer => {
        const [block, value] = [chains.get(chainId), values[index]];
        if (!block || value === undefined) throw new Error(`A check of chain ${chainId} has no answer.`);
        if (block instanceof Problem) return block;
        blocks.set(chainId, block);
        return value;
      },
    });
    const answerOf = (question: CheckQuestion): Answer => {
      const answer = answers.get(question);
      if (answer === undefined) throw new Error(`Check ${question.check.name} has no answer.`);
      return answer;
    };
    return { answers: read.map((check) => (check instanceof Problem ? check : answerOf(check))), blocks };
  }
}

/** A block number is another time on each chain. */
const requireOneChain = (questions: readonly CheckQuestion[], { block, minBlock }: AskedBlock): void => {
  const chains = new Set(questions.map(({ chainId }) => chainId));
  if (chains.size < 2 || block === "finalized" || (block ?? minBlock) === undefined) return;
  const message = "must not be a number with checks on several networks: it is another time on each";
  throw badParameters([{ parameter: block === undefined ? "minBlock" : "block", message }]);
};
