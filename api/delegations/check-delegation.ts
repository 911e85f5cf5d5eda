import { eq, type SQL, sql } from "drizzle-orm";
import type { Address, Hex } from "viem";
import { type Check, checkRule, fromActive, fromLog } from "../../registry/check-rule.ts";
import { FULL_RIGHTS, NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import { type BatchLoad, BatchQueue } from "../database/batch-queue.ts";
import { aliasColumns } from "../database/columns.ts";
import type { Database } from "../database/database.ts";
import {
  type Freshness,
  type FreshnessColumns,
  hasIndexedBlock,
  readFreshness,
  selectFreshness,
} from "../database/freshness.ts";
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
  /** A past block, in digits. Absent: the newest one. */
  block?: string | undefined;
};

/** Parameters of a check. */
export type CheckValues = Pick<CheckQuestion, "chainId" | "vault" | "delegate"> & Partial<CheckQuestion>;

/** Creates a question from parameters: missing ones are zero. */
export const toQuestion = (
  { chainId, vault, delegate, contract = NO_CONTRACT, tokenId = `${NO_TOKEN}`, rights = FULL_RIGHTS }: CheckValues,
  block: string | undefined,
): CheckQuestion => ({ chainId, vault, delegate, contract, tokenId, rights, block });

/** `value` is the response's text: true, false, or the digits of a balance. */
type CheckAnswer = { value: string; freshness: Freshness | null };

/** Checks of the same kind share a statement. */
export type CheckKind = { schema: string; version: RegistryVersion; check: Check };

/** The newest state, or the one after a past block. */
export type Moment = "now" | "past";

/** Columns of a question: their names in SQL, and their types. */
const COLUMNS = {
  chainId: ["chain_id", "bigint"],
  vault: ["vault", "text"],
  delegate: ["delegate", "text"],
  contract: ["contract", "text"],
  tokenId: ["token_id", "numeric"],
  rights: ["rights", "text"],
  block: ["block", "bigint"],
} as const satisfies Record<keyof CheckQuestion, [name: string, type: string]>;

/**
 * Source of a statement's questions, `q`: arrays of any length, or one row, which Postgres runs faster.
 * @param prefix - of the names of its values
 */
export const selectQuestions = (size: "one" | "many", moment: Moment, prefix = ""): SQL => {
  const columns = Object.entries(COLUMNS).filter(([name]) => name !== "block" || moment === "past");
  const bind = (suffix: string) => {
    const values = columns.map(
      ([name, [, type]]) => sql`${sql.placeholder(`${prefix}${name}`)}::${sql.raw(`${type}${suffix}`)}`,
    );
    return sql.join(values, sql`, `);
  };
  const rows = size === "one" ? sql`(values (${bind("")}, 1::bigint))` : sql`unnest(${bind("[]")}) with ordinality`;
  return sql`${rows} as q (${sql.raw(columns.map(([, [column]]) => column).join(", "))}, position)`;
};

/** Builds the rule of a check. */
export const buildRule = ({ schema, version, check }: CheckKind, moment: Moment): SQL => {
  // While the index catches up, and in an older one without this column, the log has no index to read it by.
  const canRead = `${hasIndexedBlock(schema)} and change.made_block >= 0`;
  const from =
    moment === "now"
      ? fromActive(`"${schema}".delegation_${version}`, version)
      : fromLog(`"${schema}".delegation_change`, version, canRead);
  return sql.raw(checkRule(from, check));
};

/** Answers questions of one kind, in their order. */
export const checkStatement = ({ db }: Database, kind: CheckKind, size: "one" | "many", moment: Moment = "now") => {
  const { schema, version, check } = kind;
  const { indexedBlock } = indexTables(schema);
  // The tables in the order in which a reorg locks them.
  const query = db
    .select({
      ...aliasColumns({ position: sql`q.position`, value: sql`answer.value` }),
      ...selectFreshness(indexedBlock),
    })
    .from(selectQuestions(size, moment))
    .crossJoinLateral(sql`(select (${buildRule(kind, moment)})::text as value) answer`)
    .leftJoin(indexedBlock, eq(indexedBlock.chainId, sql`q.chain_id`))
    .orderBy(sql`q.position`);
  return compileStatement<FreshnessColumns & { position: string; value: string }>(
    `${schema} ${version} ${check}, ${size}, ${moment}`,
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
    const moment = question.block === undefined ? "now" : "past";
    const name = `${kind.schema} ${kind.version} ${kind.check} ${moment}`;
    let queue = this.#queues.get(name);
    if (!queue) {
      queue = this.#createQueue(kind, moment);
      this.#queues.set(name, queue);
    }
    return queue.answer(question);
  }

  #createQueue(kind: CheckKind, moment: Moment): BatchQueue<CheckQuestion, CheckAnswer> {
    const one = checkStatement(this.#database, kind, "one", moment);
    const many = checkStatement(this.#database, kind, "many", moment);
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

export const toColumns = (questions: readonly CheckQuestion[]) => ({
  chainId: questions.map(({ chainId }) => chainId),
  vault: questions.map(({ vault }) => vault),
  delegate: questions.map(({ delegate }) => delegate),
  contract: questions.map(({ contract }) => contract),
  tokenId: questions.map(({ tokenId }) => tokenId),
  rights: questions.map(({ rights }) => rights),
  block: questions.map(({ block }) => block),
});
