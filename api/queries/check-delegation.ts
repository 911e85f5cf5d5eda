import { eq, type SQL, sql } from "drizzle-orm";
import type { Address, Hex } from "viem";
import { type Check, checkRule } from "../../registry/check-rule.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import { Batch, type BatchLoad } from "../batch.ts";
import { compile, type Database } from "../database.ts";
import { indexTables } from "../tables.ts";
import { named } from "./columns.ts";
import { type Freshness, type FreshnessColumns, freshnessOf, readFreshness } from "./freshness.ts";

/** May `delegate` act for `vault`? What a check does not ask about is zero, as in a delegation's key. */
export type Question = {
  chainId: number;
  vault: Address;
  delegate: Address;
  contract: Address;
  /** In digits. */
  tokenId: string;
  rights: Hex;
};

/** In the words of the response: true, false, or the digits of a balance. */
export type Answer = { value: string; freshness: Freshness | null };

const given = (name: keyof Question, type: string): SQL => sql`${sql.placeholder(name)}::${sql.raw(type)}`;

/** Where a statement has its questions from: any number of them, or one alone, which Postgres is sooner done with. */
const QUESTIONS = {
  many: sql`unnest(${given("chainId", "bigint[]")}, ${given("vault", "text[]")}, ${given("delegate", "text[]")},
    ${given("contract", "text[]")}, ${given("tokenId", "numeric[]")}, ${given("rights", "text[]")}) with ordinality`,
  one: sql`(values (${given("chainId", "bigint")}, ${given("vault", "text")}, ${given("delegate", "text")},
    ${given("contract", "text")}, ${given("tokenId", "numeric")}, ${given("rights", "text")}, 1::bigint))`,
};

const Q = sql`as q (chain_id, vault, delegate, contract, token_id, rights, position)`;

/** The statement that answers questions of one kind, in their order. */
export const checkStatement = (
  { db }: Database,
  schema: string,
  version: RegistryVersion,
  check: Check,
  questions: keyof typeof QUESTIONS,
) => {
  const { indexedBlock } = indexTables(schema);
  const rule = sql.raw(checkRule(`"${schema}".delegation_${version}`, version, check));
  // The tables in the order in which a reorg locks them.
  const query = db
    .select({
      ...named({ position: sql`q.position`, value: sql`answer.value` }),
      ...freshnessOf(indexedBlock),
    })
    .from(sql`${QUESTIONS[questions]} ${Q}`)
    .crossJoinLateral(sql`(select (${rule})::text as value) answer`)
    .leftJoin(indexedBlock, eq(indexedBlock.chainId, sql`q.chain_id`))
    .orderBy(sql`q.position`);
  return compile<FreshnessColumns & { position: string; value: string }>(
    `${schema} ${version} ${check}, ${questions}`,
    query,
  );
};

/** Answers checks from the shards of a database. */
export class DelegationChecks {
  readonly #database: Database;
  readonly #load: BatchLoad;
  readonly #batches = new Map<string, Batch<Question, Answer>>();

  constructor(database: Database, load: BatchLoad) {
    this.#database = database;
    this.#load = load;
  }

  answer(schema: string, version: RegistryVersion, check: Check, question: Question): Promise<Answer> {
    const name = `${schema} ${version} ${check}`;
    let batch = this.#batches.get(name);
    if (!batch) {
      batch = this.#createBatch(schema, version, check);
      this.#batches.set(name, batch);
    }
    return batch.answer(question);
  }

  #createBatch(schema: string, version: RegistryVersion, check: Check): Batch<Question, Answer> {
    const one = checkStatement(this.#database, schema, version, check, "one");
    const many = checkStatement(this.#database, schema, version, check, "many");
    return new Batch(async (questions) => {
      const [alone] = questions;
      const rows =
        alone && questions.length === 1
          ? await this.#database.read("checks", one, alone)
          : await this.#database.read("checks", many, columnsOf(questions));
      return rows.map((row, index) => {
        // Nobody may get the answer to somebody else's question.
        if (Number(row.position) !== index + 1) throw new Error(`Row ${index + 1} answers question ${row.position}.`);
        return { value: row.value, freshness: readFreshness(row) };
      });
    }, this.#load);
  }
}

const columnsOf = (questions: readonly Question[]) => ({
  chainId: questions.map(({ chainId }) => chainId),
  vault: questions.map(({ vault }) => vault),
  delegate: questions.map(({ delegate }) => delegate),
  contract: questions.map(({ contract }) => contract),
  tokenId: questions.map(({ tokenId }) => tokenId),
  rights: questions.map(({ rights }) => rights),
});
