import { type SQL, sql } from "drizzle-orm";
import { type FreshnessColumns, hasIndexedBlock } from "../database/freshness.ts";
import { compileStatement, type Statement } from "../database/statement.ts";
import type { Moment } from "../delegations/check-delegation.ts";

// Statements about several networks of a schema: all rows of a network are at one block, which is read with them.

/** A row as Postgres sends it. One that is not found has only the block of its network. */
export type NetworkRow<Row> = Row &
  FreshnessColumns & {
    chainId: string;
    isFound: boolean;
    /** With a time, the last block up to it that changed a delegation. */
    answeredBlock: string | null;
    answeredTimestamp: string | null;
  };

type StatementParts = {
  schema: string;
  moment: Moment;
  /** Values that are the same for all networks, by column of `q`, with their types. */
  values: Readonly<Record<string, string>>;
  /** Values of each network, in the same way. */
  networkValues: Readonly<Record<string, string>>;
  /** The `from` of the rows, with a row `q` for each network of the relation `network`. */
  from: SQL;
  /** The columns of a row, by name. */
  columns: Readonly<Record<string, string>>;
};

/** An older index lacks this column of the log, and the indexes to read it by. */
export const HAS_MADE_BLOCK = "made_block >= 0";

const bind = (name: string, type: string): SQL => sql`${sql.placeholder(name)}::${sql.raw(type)}`;

/** The block of a network: of a past one the number, or the last change up to a time. */
const joinBlock = (schema: string): SQL => sql`
  left join lateral (
    select change.block_number, change.block_timestamp from ${sql.raw(`"${schema}".delegation_change`)} change
    where change.chain_id = given.chain_id and change.block_timestamp <= ${bind("timestamp", "bigint")}
      and ${sql.raw(hasIndexedBlock(schema))}
    order by change.block_timestamp desc, change.block_number desc limit 1
  ) last on true`;

const selectNetworks = ({ schema, moment, values, networkValues }: StatementParts): SQL => {
  const columns = { chain_id: "bigint", asked_block: "bigint", ...networkValues };
  const arrays = Object.entries(columns).map(([name, type]) => bind(name, `${type}[]`));
  const shared = Object.entries(values).map(([name, type]) => sql`${bind(name, type)} as ${sql.raw(name)}`);
  const block =
    moment === "past"
      ? sql.raw("coalesce(given.asked_block, last.block_number) as block, last.block_timestamp")
      : sql.raw("null::bigint as block, null::bigint as block_timestamp");
  return sql`
    select given.*, ${sql.join(shared, sql`, `)}, ${block}
    from unnest(${sql.join(arrays, sql`, `)}) as given (${sql.raw(Object.keys(columns).join(", "))})
    ${moment === "past" ? joinBlock(schema) : sql``}`;
};

const BLOCK_COLUMNS = {
  indexedBlock: "indexed.number",
  indexedBlockTimestamp: "indexed.timestamp",
  finalizedBlock: "indexed.finalized_number",
  finalizedBlockTimestamp: "indexed.finalized_timestamp",
  answeredBlock: "network.block",
  answeredTimestamp: "network.block_timestamp",
};

const alias = (columns: Readonly<Record<string, string>>): string =>
  Object.entries(columns)
    .map(([name, column]) => `${column} as "${name}"`)
    .join(", ");

const nulls = (columns: object, type = ""): Record<string, string> =>
  Object.fromEntries(Object.keys(columns).map((name) => [name, `null${type}`]));

/** Builds a statement: the rows of all networks, in no order, then a row with the block of each network. */
export const networksStatement = <Row>(name: string, parts: StatementParts): Statement<NetworkRow<Row>> => {
  const { schema, columns, from } = parts;
  const found = alias({ chainId: "q.chain_id", isFound: "true", ...columns, ...nulls(BLOCK_COLUMNS, "::bigint") });
  const block = alias({ chainId: "network.chain_id", isFound: "false", ...nulls(columns), ...BLOCK_COLUMNS });
  // The tables in the order in which a reorg locks them: the block's comes last.
  const query = sql`
    with network as materialized (${selectNetworks(parts)})
    select ${sql.raw(found)} from ${from}
    union all
    select ${sql.raw(block)} from network
    left join ${sql.raw(`"${schema}".indexed_block`)} indexed on indexed.chain_id = network.chain_id`;
  return compileStatement(`${schema} ${name}`, query);
};
