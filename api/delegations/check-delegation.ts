import { eq, type SQL, sql } from "drizzle-orm";
import type { Address, Hex } from "viem";
import { type Check, checkRule } from "../../registry/check-rule.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import { type BatchLoad, BatchQueue } from "../database/batch-queue.ts";
import { aliasColumns } from "../database/columns.ts";
import type { Database } from "../database/database.ts";
import { type Freshness, type FreshnessColumns, readFreshness, selectFreshness } from "../database/freshness.ts";
import { compileStatement } from "../database/statement.ts";
import { indexTables } from "../database/tables.ts";

/** May `delegate` act for `vault`? Fields that a check does not use are zero, as in a delegation's key. */
export type CheckQuestion = {
  chainId: number;
  vault: Address;
  delegate: Address;
  contract: Address;
  /** In digits. */
  tokenId: string;
  rights: Hex;
};

/** `value` is the response's text: true, false, or the digits of a balance. */
type CheckAnswer = { value: string; freshness: Freshness | null };

/** Checks of the same kind share a statement. */
export type CheckKind = { schema: string; version: RegistryVersion; check: Check };

const bind = (name: keyof CheckQuestion, type: string): SQL => sql`${sql.placeholder(name)}::${sql.raw(type)}`;

/** Source of a statement's questions: arrays of any length, or one row, which Postgres runs faster. */
const QUESTIONS = {
  many: sql`unnest(${bind("chainId", "bigint[]")}, ${bind("vault", "text[]")}, ${bind("delegate", "text[]")},
    ${bind("contract", "text[]")}, ${bind("tokenId", "numeric[]")}, ${bind("rights", "text[]")}) with ordinality`,
  one: sql`(values (${bind("chainId", "bigint")}, ${bind("vault", "text")}, ${bind("delegate", "text")},
    ${bind("contract", "text")}, ${bind("tokenId", "numeric")}, ${bind("rights", "text")}, 1::bigint))`,
};

const ALIAS = sql`as q (chain_id, vault, delegate, contract, token_id, rights, position)`;

/** Answers questions of one kind, in their order. */
export const checkStatement = (
  { db }: Database,
  { schema, version, check }: CheckKind,
  questions: keyof typeof QUESTIONS,
) => {
  const { indexedBlock } = indexTables(schema);
  const rule = sql.raw(checkRule(`"${schema}".delegation_${version}`, version, check));
  // The tables in the order in which a reorg locks them.
  const query = db
    .select({
      ...aliasColumns({ position: sql`q.position`, value: sql`answer.value` }),
      ...selectFreshness(indexedBlock),
    })
    .from(sql`${QUESTIONS[questions]} ${ALIAS}`)
    .crossJoinLateral(sql`(select (${rule})::text as value) answer`)
    .leftJoin(indexedBlock, eq(indexedBlock.chainId, sql`q.chain_id`))
    .orderBy(sql`q.position`);
  return compileStatement<FreshnessColumns & { position: string; value: string }>(
    `${schema} ${version} ${check}, ${questions}`,
    query,
  );
};

export class DelegationChecks {
  readonly #database: Database;
  readonly #load: BatchLoad;
  readonly #queues = new Map<string, BatchQueue<CheckQuestion, CheckAnswer>>();

  constructor(database: Database, load: BatchLoad) {
    this.#database = database;
    this.#load = load;
  }

  answer(kind: CheckKind, question: CheckQuestion): Promise<CheckAnswer> {
    const name = `${kind.schema} ${kind.version} ${kind.check}`;
    let queue = this.#queues.get(name);
    if (!queue) {
      queue = this.#createQueue(kind);
      this.#queues.set(name, queue);
    }
    return queue.answer(question);
  }

  #createQueue(kind: CheckKind): BatchQueue<CheckQuestion, CheckAnswer> {
    const one = checkStatement(this.#database, kind, "one");
    const many = checkStatement(this.#database, kind, "many");
    return new BatchQueue(async (questions) => {
      const [first] = questions;
      const rows =
        first && questions.length === 1
          ? await this.#database.read("checks", one, first)
          : await this.#database.read("checks", many, toColumns(questions));
      return rows.map((row, index) => {
        // A request must never get the answer of another.
        if (Number(row.position) !== index + 1) throw new Error(`Row ${index + 1} answers question ${row.position}.`);
        return { value: row.value, freshness: readFreshness(row) };
      });
    }, this.#load);
  }
}

const toColumns = (questions: readonly CheckQuestion[]) => ({
  chainId: questions.map(({ chainId }) => chainId),
  vault: questions.map(({ vault }) => vault),
  delegate: questions.map(({ delegate }) => delegate),
  contract: questions.map(({ contract }) => contract),
  tokenId: questions.map(({ tokenId }) => tokenId),
  rights: questions.map(({ rights }) => rights),
});
