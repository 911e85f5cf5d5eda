import type { RegistryVersion } from "../../registry/networks.ts";
import { activeAt, IDENTITY } from "../../registry/state-at.ts";

// The rows of all shards under one name each, in the schema "indexer": as they are stored, with zero for
// "not limited". What data teams see in the schema "analytics" is made of these.

/** What is needed of a shard's tables, by their columns and types. */
export const STORED = {
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

export type StoredTable = keyof typeof STORED;

/** In the order in which a reorg locks them. */
export const STORED_TABLES: readonly StoredTable[] = [
  "delegation_change",
  "delegation_v1",
  "delegation_v2",
  "indexed_block",
];

const namesOf = (columns: Record<string, string>) => Object.keys(columns).join(", ");

/** No row, but names and types. */
const nothing = (columns: Record<string, string>, from = "") =>
  `select ${Object.entries(columns)
    .map(([name, type]) => `null::${type} as ${name}`)
    .join(", ")} ${from} where false`;

/**
 * A table's rows from every shard, each chain's from the one that answers for it. Which that is, is looked
 * up once for each shard and statement: a list of chains that an index can be searched by. Of the blocks,
 * by which it is decided, those of every shard.
 *
 * Whoever reads a table reads nothing from those before it, which locks them. So in whatever order
 * statements and functions of a transaction ask, they lock as a reorg does, and never deadlock with one.
 */
export const storedRows = (table: StoredTable, shards: readonly string[]): string => {
  const columns = STORED[table];
  const all = table === "indexed_block" ? { shard: "text", ...columns } : columns;
  const before = STORED_TABLES.slice(0, STORED_TABLES.indexOf(table));
  const selects = shards.flatMap((shard) => [
    ...before.map((other) => nothing(all, `from "${shard}".${other}`)),
    table === "indexed_block"
      ? `select '${shard}', ${namesOf(columns)} from "${shard}".${table}`
      : `select ${namesOf(columns)} from "${shard}".${table}
where chain_id = any ((select analytics.chains_of('${shard}'))::bigint[])`,
  ]);
  return (selects.length > 0 ? selects : [nothing(all)]).join("\nunion all\n");
};

/** Where the active delegations of a registry are. */
export const activeDelegations = (version: RegistryVersion) => `indexer.delegation_${version}`;

/** The delegations of a registry that were active at a block, which is an expression. */
export const delegationsActiveAt = (version: RegistryVersion, block: string) =>
  activeAt("indexer.delegation_change", `registry = '${version}' and block_number <= ${block}`);

/**
 * Each period in which a delegation was active, with the events that began and ended it. The log holds
 * what changed only: a period ends with the next change that is not active.
 * @param condition which changes count
 */
export const periods = (condition = "true"): string => {
  const first = (column: string) => `(array_agg(${column} order by block_number, log_index))[1]`;
  const ofEnd = (column: string) => `max(${column}) filter (where not active)`;
  return `
    select ${IDENTITY},
      (array_agg(amount order by block_number desc, log_index desc) filter (where active))[1] as amount,
      ${first("block_number")} as block_number,
      ${first("block_timestamp")} as block_timestamp,
      ${first("transaction_hash")} as transaction_hash,
      ${first("log_index")} as log_index,
      ${ofEnd("block_number")} as ended_block,
      ${ofEnd("block_timestamp")} as ended_timestamp,
      ${ofEnd("transaction_hash")} as ended_transaction_hash,
      ${ofEnd("event")} as ended_event
    from (
      select *, count(*) filter (where not active) over (
        partition by ${IDENTITY} order by block_number, log_index
        rows between unbounded preceding and 1 preceding
      ) as periods_before
      from indexer.delegation_change
      where ${condition}
    ) change
    group by ${IDENTITY}, periods_before`;
};
