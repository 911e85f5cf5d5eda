import { eq, sql } from "drizzle-orm";
import { unionAll } from "drizzle-orm/pg-core";
import type { Proof } from "../../client/src/proof.ts";
import { CHECKS, type Check } from "../../registry/checks.ts";
import { badParameters } from "../contract/define-parameters.ts";
import type { AskedBlock } from "../contract/parameters.ts";
import { aliasColumns, nullColumns } from "../database/columns.ts";
import type { Database } from "../database/database.ts";
import {
  type AnsweredBlock,
  type Freshness,
  type FreshnessColumns,
  readFreshness,
  selectFreshness,
  showAnsweredBlock,
} from "../database/freshness.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import { compileStatement } from "../database/statement.ts";
import { indexTables } from "../database/tables.ts";
import {
  buildRule,
  type CheckQuestion,
  type Moment,
  momentOf,
  nameCheck,
  selectQuestions,
  toColumns,
} from "../delegations/check-delegation.ts";
import { Problem } from "../problem.ts";
import type { Proofs } from "../proofs/proofs.ts";
import { askPerShard, orProblem } from "../shards/ask-per-shard.ts";
import type { Shards } from "../shards/shards.ts";
import { inSlices } from "../slices.ts";
import { createCheckReader, type ReadCheck } from "./read-check.ts";

/** A row has the answers to all questions of one check, or the block of a chain. */
type BulkRow = FreshnessColumns & { check: string | null; values: string | null; chainId: string | null };

/**
 * Answers questions of all checks in one statement, so that all answers of a chain have one block. The answers of a check
 * are one text, in the order of the questions: a row for each would take pg longer than Postgres.
 */
export const bulkStatement = ({ db }: Database, schema: string, moment: Moment) => {
  const { indexedBlock } = indexTables(schema);
  const freshness = selectFreshness(indexedBlock);
  // With a type: Postgres would take nulls for texts.
  const noBlock = Object.fromEntries(["chainId", ...Object.keys(freshness)].map((name) => [name, sql`null::bigint`]));
  const selectAnswers = (check: Check) =>
    db
      .select({
        ...aliasColumns({
          check: sql.raw(`'${nameCheck(check)}'`),
          values: sql`string_agg(answer.value, ',' order by q.position)`,
          ...noBlock,
        }),
      })
      .from(selectQuestions("many", moment, `${nameCheck(check)} `))
      .crossJoinLateral(sql`(select (${buildRule(schema, check, moment)})::text as value) answer`);
  const selectBlocks = db
    .select({ ...nullColumns(["check", "values"]), ...aliasColumns({ chainId: sql`q.chain_id` }), ...freshness })
    .from(sql`unnest(${sql.placeholder("chainIds")}::bigint[]) as q (chain_id)`)
    .leftJoin(indexedBlock, eq(indexedBlock.chainId, sql`q.chain_id`));
  // v1 before v2: the tables in the order in which a reorg locks them.
  const [first, second, ...others] = [...CHECKS.map(selectAnswers), selectBlocks];
  if (!first || !second) throw new Error("There are no checks.");
  return compileStatement<BulkRow>(`${schema} bulk checks, ${moment}`, unionAll(first, second, ...others));
};

const findStatement = memoizeByDatabase((database, schema: string, moment: string) =>
  bulkStatement(database, schema, moment as Moment),
);

type BulkAnswers = {
  /** In the order of the questions: true, false, or the digits of a balance. */
  values: (string | undefined)[];
  /** By chain. */
  freshness: Map<number, Freshness | null>;
};

/** Answers questions about the chains of one schema, at the newest block or all at past ones. */
const answerTogether = async (
  database: Database,
  schema: string,
  questions: readonly CheckQuestion[],
): Promise<BulkAnswers> => {
  const moment = momentOf(questions[0] ?? {});
  const byCheck = new Map(CHECKS.map((check) => [nameCheck(check), [] as number[]]));
  for (const [index, { check }] of questions.entries()) byCheck.get(nameCheck(check))?.push(index);
  const chainIds = [...new Set(questions.map(({ chainId }) => chainId))];
  const parameters: Record<string, unknown> = { chainIds };
  for (const [check, indexes] of byCheck) {
    const ofCheck = indexes.flatMap((index) => questions[index] ?? []);
    for (const [name, column] of Object.entries(toColumns(ofCheck))) parameters[`${check} ${name}`] = column;
  }

  const rows = await database.read("bulk", findStatement(database, schema, moment), parameters);
  const values: (string | undefined)[] = new Array(questions.length);
  const freshness = new Map<number, Freshness | null>();
  for (const row of rows) {
    if (row.check === null) {
      freshness.set(Number(row.chainId), readFreshness(row));
      continue;
    }
    const indexes = byCheck.get(row.check) ?? [];
    const answers = row.values === null ? [] : row.values.split(",");
    // A check must never get the answer of another.
    if (answers.length !== indexes.length) {
      throw new Error(`${answers.length} answers to ${indexes.length} questions of ${row.check}.`);
    }
    for (const [place, index] of indexes.entries()) values[index] = answers[place];
  }
  return { values, freshness };
};

/** `true`, `false` or the digits of a balance, an answer with its proof, or the check's own problem. */
export type Answer = string | Proof | Problem;

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
    const { read, questions } = await this.#read(checks, asked);
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
    return { answers: inOrder(read, answers), blocks };
  }

  /** The same with proofs: all answers of a chain are of one block. */
  async prove(proofs: Proofs, caller: string, checks: readonly unknown[], asked: AskedBlock) {
    const { read, questions } = await this.#read(checks, asked);
    const proven = await proofs.prove(caller, questions, asked);
    const blocks = new Map<number, AnsweredBlock>();
    const answers = new Map<CheckQuestion, Answer>();
    for (const [question, answer] of proven) {
      answers.set(question, answer instanceof Problem ? answer : answer.proof);
      if (answer instanceof Problem) continue;
      blocks.set(question.chainId, showAnsweredBlock(answer.freshness, answer.block));
    }
    return { answers: inOrder(read, answers), blocks };
  }

  async #read(checks: readonly unknown[], asked: AskedBlock) {
    const read: (CheckQuestion | Problem)[] = [];
    await inSlices(checks, (check) => read.push(orProblem(() => this.#readCheck(check))));
    const questions = read.flatMap((question) => (question instanceof Problem ? [] : [question]));
    requireOneChain(questions, asked);
    return { read, questions };
  }
}

const inOrder = (read: readonly (CheckQuestion | Problem)[], answers: ReadonlyMap<CheckQuestion, Answer>): Answer[] =>
  read.map((check) => {
    const answer = check instanceof Problem ? check : answers.get(check);
    if (answer === undefined) throw new Error("A check has no answer.");
    return answer;
  });

/** A block number is another time on each chain. */
const requireOneChain = (questions: readonly CheckQuestion[], { block, minBlock }: AskedBlock): void => {
  const chains = new Set(questions.map(({ chainId }) => chainId));
  if (chains.size < 2 || block === "finalized" || (block ?? minBlock) === undefined) return;
  const message = "must not be a number with checks on several networks: it is another time on each";
  throw badParameters([{ parameter: block === undefined ? "minBlock" : "block", message }]);
};
