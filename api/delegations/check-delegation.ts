import { eq, type SQL, sql } from "drizzle-orm";
import type { Address, Hex } from "viem";
import { checkRule, fromActive, fromLog } from "../../registry/check-rule.ts";
import type { Check } from "../../registry/checks.ts";
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
import { memoize } from "../database/memoize.ts";
import { compileStatement } from "../database/statement.ts";
import { indexTables } from "../database/tables.ts";

/** May `delegate` act for `vault`? Fields that the check does not take are zero, as in a delegation's key. */
export type CheckQuestion = {
  check: Check;
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

/** `value` is the response's text: true, false, or the digits of a balance. */
type CheckAnswer = { value: string; freshness: Freshness | null };

/** The newest state, or the one after a past block. */
export type Moment = "now" | "past";

export const momentOf = ({ block }: { block?: string | undefined }): Moment => (block === undefined ? "now" : "past");

/** Columns of a question: their names in SQL, and their types. */
const COLUMNS = {
  chainId: ["chain_id", "bigint"],
  vault: ["vault", "text"],
  delegate: ["delegate", "text"],
  contract: ["contract", "text"],
  tokenId: ["token_id", "numeric"],
  rights: ["rights", "text"],
  block: ["block", "bigint"],
} as const satisfies Record<Exclude<keyof CheckQuestion, "check">, [name: string, type: string]>;

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
export const buildRule = (schema: string, check: Check, moment: Moment): SQL => {
  const { version } = check;
  // While the index catches up, and in an older one without this column, the log has no index to read it by.
  const canRead = `${hasIndexedBlock(schema)} and change.made_block >= 0`;
  const from =
    moment === "now"
      ? fromActive(`"${schema}".delegation_${version}`, version)
      : fromLog(`"${schema}".delegation_change`, version, canRead);
  return sql.raw(checkRule(from, check));
};

/** Questions that share a statement. */
type CheckKind = { schema: string; check: Check; moment: Moment };

/** Names a check of one registry. */
export const nameCheck = ({ version, name }: Check) => `${version} ${name}`;

const nameKind = ({ schema, check, moment }: CheckKind) => `${schema} ${nameCheck(check)}, ${moment}`;

/** Answers questions of one kind, in their order. */
export const checkStatement = ({ db }: Database, kind: CheckKind, size: "one" | "many") => {
  const { schema, check, moment } = kind;
  const { indexedBlock } = indexTables(schema);
  // The tables in the order in which a reorg locks them.
  const query = db
    .select({
      ...aliasColumns({ position: sql`q.position`, value: sql`answer.value` }),
      ...selectFreshness(indexedBlock),
    })
    .from(selectQuestions(size, moment))
    .crossJoinLateral(sql`(select (${buildRule(schema, check, moment)})::text as value) answer`)
    .leftJoin(indexedBlock, eq(indexedBlock.chainId, sql`q.chain_id`))
    .orderBy(sql`q.position`);
  return compileStatement<FreshnessColumns & { position: string; value: string }>(`${nameKind(kind)}, ${size}`, query);
};

/** Answers checks: those of one kind together. */
export class DelegationChecks {
  readonly #findQueue: (kind: CheckKind) => BatchQueue<CheckQuestion, CheckAnswer>;

  constructor(database: Database, load: BatchLoad) {
    this.#findQueue = memoize((kind) => createQueue(database, load, kind), nameKind);
  }

  answer(schema: string, question: CheckQuestion): Promise<CheckAnswer> {
    return this.#findQueue({ schema, check: question.check, moment: momentOf(question) }).answer(question);
  }
}

const createQueue = (database: Database, load: BatchLoad, kind: CheckKind): BatchQueue<CheckQuestion, CheckAnswer> => {
  const one = checkStatement(database, kind, "one");
  const many = checkStatement(database, kind, "many");
  return new BatchQueue(async (questions) => {
    const [first] = questions;
    const rows =
      first && questions.length === 1
        ? await database.read("checks", one, first)
        : await database.read("checks", many, toColumns(questions));
    return rows.map((row, index) => {
      // A request must never get the answer of another.
      if (Number(row.position) !== index + 1) throw new Error(`Row ${index + 1} answers question ${row.position}.`);
      return { value: row.value, freshness: readFreshness(row) };
    });
  }, load);
};

export const toColumns = (questions: readonly CheckQuestion[]) => ({
  chainId: questions.map(({ chainId }) => chainId),
  vault: questions.map(({ vault }) => vault),
  delegate: questions.map(({ delegate }) => delegate),
  contract: questions.map(({ contract }) => contract),
  tokenId: questions.map(({ tokenId }) => tokenId),
  rights: questions.map(({ rights }) => rights),
  block: questions.map(({ block }) => block),
});
