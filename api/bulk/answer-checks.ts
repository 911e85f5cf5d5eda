import { badParameters } from "../contract/define-parameters.ts";
import type { AskedBlock } from "../contract/parameters.ts";
import type { Database } from "../database/database.ts";
import { type AnsweredBlock, showAnsweredBlock } from "../database/freshness.ts";
import type { CheckQuestion } from "../delegations/check-delegation.ts";
import { Problem } from "../problem.ts";
import type { Shards } from "../shards/shards.ts";
import { inSlices } from "../slices.ts";
import { answerTogether, type BulkAnswers } from "./bulk-checks.ts";
import { createCheckReader, type ReadCheck } from "./read-check.ts";

/** `true`, `false` or the digits of a balance, or the check's own problem. */
export type Answer = string | Problem;

/** A readable check, and its place in the request. */
type Asked = { place: number; question: CheckQuestion };

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
    const answers: Answer[] = new Array(checks.length).fill("");
    const readable: Asked[] = [];
    await inSlices(checks, (check, place) => {
      const read = orProblem(() => this.#readCheck(check));
      if (read instanceof Problem) answers[place] = read;
      else readable.push({ place, question: read });
    });
    requireOneChain(readable, asked);

    const blocks = new Map<number, AnsweredBlock>();
    const answerSchema = async ([schema, ofSchema]: [string, Asked[]]) => {
      const found = await this.#askSchema(schema, ofSchema);
      const chains = new Map<number, AnsweredBlock | Problem>();
      for (const [index, { place, question }] of ofSchema.entries()) {
        const { chainId, block } = question;
        const chain = chains.get(chainId) ?? orProblem(() => this.#findBlock(found, chainId, { ...asked, block }));
        chains.set(chainId, chain);
        answers[place] = chain instanceof Problem ? chain : (found.values[index] ?? "");
        if (!(chain instanceof Problem)) blocks.set(chainId, chain);
      }
    };
    await Promise.all([...this.#groupBySchema(readable, asked, answers)].map(answerSchema));
    return { answers, blocks };
  }

  /** Groups checks by schema. In one go: a refresh of the shards in between could give a chain two schemas or blocks. */
  #groupBySchema(checks: readonly Asked[], asked: AskedBlock, answers: Answer[]): Map<string, Asked[]> {
    const bySchema = new Map<string, Asked[]>();
    for (const { place, question } of checks) {
      answers[place] = orProblem(() => {
        const { check, chainId } = question;
        const schema = this.#shards.findSchema(check.version, chainId);
        const block = this.#shards.findBlock(chainId, asked);
        const ofSchema = bySchema.get(schema) ?? [];
        ofSchema.push({ place, question: { ...question, block } });
        bySchema.set(schema, ofSchema);
        return "";
      });
    }
    return bySchema;
  }

  /** Asks one schema. If it cannot be read, its checks fail; if the database is out of reach, the whole request does. */
  async #askSchema(schema: string, asked: readonly Asked[]): Promise<BulkAnswers> {
    const questions = asked.map(({ question }) => question);
    try {
      return await answerTogether(this.#database, schema, questions);
    } catch (error) {
      if (!(error instanceof Problem) || error.problem !== "not-indexed") throw error;
      return { values: [], freshness: error };
    }
  }

  #findBlock({ freshness: found }: BulkAnswers, chainId: number, asked: AskedBlock): AnsweredBlock {
    if (found instanceof Problem) throw found;
    const freshness = this.#shards.requireFresh(chainId, found.get(chainId) ?? null, asked);
    return showAnsweredBlock(freshness, asked.block);
  }
}

/** A block number is another time on each chain. */
const requireOneChain = (checks: readonly Asked[], { block, minBlock }: AskedBlock): void => {
  const chains = new Set(checks.map(({ question }) => question.chainId));
  if (chains.size < 2 || block === "finalized" || (block ?? minBlock) === undefined) return;
  const message = "must not be a number with checks on several networks: it is another time on each";
  throw badParameters([{ parameter: block === undefined ? "minBlock" : "block", message }]);
};

const orProblem = <Value>(find: () => Value): Value | Problem => {
  try {
    return find();
  } catch (error) {
    if (error instanceof Problem) return error;
    throw error;
  }
};
