import type { Address, Hex } from "viem";
import { type Check, checkRule } from "../../registry/check-rule.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import { Batch, type BatchLoad } from "../batch.ts";
import type { Database } from "../database.ts";
import { type Freshness, freshnessColumns, readFreshness } from "./freshness.ts";

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

/** Where a statement has its questions from: any number of them, or one alone, which Postgres is sooner done with. */
const QUESTIONS = {
  many: "unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::numeric[], $6::text[]) with ordinality",
  one: "(values ($1::bigint, $2::text, $3::text, $4::text, $5::numeric, $6::text, 1::bigint))",
};

/** The statement that answers questions of one kind, in their order. In one column, which is the least work for both sides. */
export const checkStatement = (
  schema: string,
  version: RegistryVersion,
  check: Check,
  questions: keyof typeof QUESTIONS,
): string =>
  // The tables in the order in which a reorg locks them.
  `
    select concat_ws(' ', q.position, answer.value, ${freshnessColumns("block")})
    from ${QUESTIONS[questions]} as q (chain_id, vault, delegate, contract, token_id, rights, position)
    cross join lateral (select (${checkRule(`"${schema}".delegation_${version}`, version, check)})::text as value) answer
    left join "${schema}".indexed_block block on block.chain_id = q.chain_id
    order by q.position`;

const valuesOfOne = ({ chainId, vault, delegate, contract, tokenId, rights }: Question): string[] => [
  String(chainId),
  vault,
  delegate,
  contract,
  tokenId,
  rights,
];

/** As Postgres writes arrays: digits and hex need no quotes, which the driver would look for in each. */
const valuesOfMany = (questions: readonly Question[]): string[] => [
  `{${questions.map(({ chainId }) => chainId).join()}}`,
  `{${questions.map(({ vault }) => vault).join()}}`,
  `{${questions.map(({ delegate }) => delegate).join()}}`,
  `{${questions.map(({ contract }) => contract).join()}}`,
  `{${questions.map(({ tokenId }) => tokenId).join()}}`,
  `{${questions.map(({ rights }) => rights).join()}}`,
];

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
      const many = checkStatement(schema, version, check, "many");
      const one = checkStatement(schema, version, check, "one");
      batch = new Batch(async (questions) => {
        const [alone] = questions;
        const rows = await this.#database.queryTexts(
          alone && questions.length === 1
            ? { name: `${name}, one`, text: one, values: valuesOfOne(alone) }
            : { name, text: many, values: valuesOfMany(questions) },
        );
        return rows.map(([text], index) => {
          const [position, value = "", number = null, timestamp, finalized] = text?.split(" ") ?? [];
          // Nobody may get the answer to somebody else's question.
          if (Number(position) !== index + 1) throw new Error(`Row ${index + 1} answers question ${position}.`);
          return { value, freshness: readFreshness([number, timestamp, finalized]) };
        });
      }, this.#load);
      this.#batches.set(name, batch);
    }
    return batch.answer(question);
  }
}
