import type { RegistryVersion } from "../../registry/networks.ts";
import { DELEGATION_KEY, selectActiveAt } from "../../registry/state-at.ts";

// One view per table in the schema "indexer", with the rows of all shards as they are stored: zero means "not limited".
// The views of the schema "analytics" select from these.

/** The columns of a shard's tables that analytics needs, with their types. */
export const SHARD_TABLES = {
  delegation_change: {
    chain_id: "bigint",
    registry: "text",
    vault: "text",
    delegate: "text",
    type: "text",
    contract: "text",
    token_id: "numeric(78,0)",
    rights: "text",
    active: "boolean",
    amount: "numeric(78,0)",
    event: "text",
    block_number: "bigint",
    block_timestamp: "bigint",
    transaction_hash: "text",
    log_index: "integer",
    ordinal: "integer",
    was_active: "boolean",
    made_block: "bigint",
    made_log_index: "integer",
  },
  delegation_v1: {
    chain_id: "bigint",
    vault: "text",
    delegate: "text",
    type: "text",
    contract: "text",
    token_id: "numeric(78,0)",
    block_number: "bigint",
    block_timestamp: "bigint",
    transaction_hash: "text",
    log_index: "integer",
  },
  delegation_v2: {
    chain_id: "bigint",
    vault: "text",
    delegate: "text",
    type: "text",
    contract: "text",
    token_id: "numeric(78,0)",
    rights: "text",
    amount: "numeric(78,0)",
    block_number: "bigint",
    block_timestamp: "bigint",
    transaction_hash: "text",
    log_index: "integer",
  },
  indexed_block: {
    chain_id: "bigint",
    number: "bigint",
    hash: "text",
    timestamp: "bigint",
    finalized_number: "bigint",
  },
} as const;

export type ShardTable = keyof typeof SHARD_TABLES;

/** The tables in the order in which a reorg locks them. */
export const TABLES_IN_LOCK_ORDER: readonly ShardTable[] = [
  "delegation_change",
  "delegation_v1",
  "delegation_v2",
  "indexed_block",
];

const listColumns = (columns: Record<string, string>) => Object.keys(columns).join(", ");

/** Selects no row, with the names and types of the columns. */
const selectNoRows = (columns: Record<string, string>, from = "") =>
  `select ${Object.entries(columns)
    .map(([name, type]) => `null::${type} as ${name}`)
    .join(", ")} ${from} where false`;

/**
 * Selects a table's rows from every shard, each chain's rows from the shard that answers for it. A statement looks that
 * up once per shard, as a list of chains that an index can be searched by. Of `indexed_block`, which decides it, all
 * shards' rows are selected.
 *
 * The statement also selects no rows from the tables before this one, which locks them. So all statements and functions
 * of a transaction lock tables in a reorg's order, and never deadlock with it.
 */
export const selectFromShards = (table: ShardTable, shards: readonly string[]): string => {
  const columns = SHARD_TABLES[table];
  const all = table === "indexed_block" ? { shard: "text", ...columns } : columns;
  const before = TABLES_IN_LOCK_ORDER.slice(0, TABLES_IN_LOCK_ORDER.indexOf(table));
  const selects = shards.flatMap((shard) => [
    ...before.map((other) => selectNoRows(all, `from "${shard}".${other}`)),
    table === "indexed_block"
      ? `select '${shard}', ${listColumns(columns)} from "${shard}".${table}`
      : `select ${listColumns(columns)} from "${shard}".${table}
where chain_id = any ((select analytics.chains_of('${shard}'))::bigint[])`,
  ]);
  return (selects.length > 0 ? selects : [selectNoRows(all)]).join("\nunion all\n");
};

/** The view of a registry's active delegations. */
export const activeDelegations = (version: RegistryVersion) => `indexer.delegation_${version}`;

/**
 * Selects the delegations of a registry that were active at a block.
 * @param block an SQL expression
 */
export const selectDelegationsAt = (version: RegistryVersion, block: string) =>
  selectActiveAt("indexer.delegation_change", `registry = '${version}' and block_number <= ${block}`);

/**
 * Selects each period in which a delegation was active, with the events that began and ended it. The log holds only
 * changes, so a period ends with the next change that is not active.
 * @param condition an SQL condition on the changes to use
 */
export const selectPeriods = (condition = "true"): string => {
  const first = (column: string) => `(array_agg(${column} order by block_number, log_index))[1]`;
  const atEnd = (column: string) => `max(${column}) filter (where not active)`;
  return `
    select ${DELEGATION_KEY},
      (array_agg(amount order by block_number desc, log_index desc) filter (where active))[1] as amount,
      ${first("block_number")} as block_number,
      ${first("block_timestamp")} as block_timestamp,
      ${first("transaction_hash")} as transaction_hash,
      ${first("log_index")} as log_index,
      ${atEnd("block_number")} as ended_block,
      ${atEnd("block_timestamp")} as ended_timestamp,
      ${atEnd("transaction_hash")} as ended_transaction_hash,
      ${atEnd("event")} as ended_event
    from (
      select *, count(*) filter (where not active) over (
        partition by ${DELEGATION_KEY} order by block_number, log_index
        rows between unbounded preceding and 1 preceding
      ) as periods_before
      from indexer.delegation_change
      where ${condition}
    ) change
    group by ${DELEGATION_KEY}, periods_before`;
};
