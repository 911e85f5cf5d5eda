import type { RegistryVersion } from "../../registry/networks.ts";

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

type Table = keyof typeof STORED;

/** No row, but names and types. */
const nothing = (columns: Record<string, string>, from = "") =>
  `select ${Object.entries(columns)
    .map(([name, type]) => `null::${type} as ${name}`)
    .join(", ")} ${from} where false`;

const union = (columns: Record<string, string>, selects: readonly string[]) =>
  (selects.length > 0 ? selects : [nothing(columns)]).join("\nunion all\n");

/**
 * A table's rows from every shard, each chain's from the one that answers for it. Which that is, is looked
 * up once for each shard and statement: a list of chains that an index can be searched by.
 */
export const storedRows = (table: Exclude<Table, "indexed_block">, shards: readonly string[]): string => {
  const columns = Object.keys(STORED[table]).join(", ");
  return union(
    STORED[table],
    shards.map(
      (shard) =>
        `select ${columns} from "${shard}".${table}\nwhere chain_id = any ((select analytics.chains_of('${shard}'))::bigint[])`,
    ),
  );
};

/**
 * The newest blocks of every shard. A statement that reads it has the shard's other tables first, if only
 * to hold none of their rows: so whoever asks for blocks before delegations, in one transaction, locks
 * them in the order in which a reorg does.
 */
export const storedBlocks = (shards: readonly string[]): string => {
  const columns = { shard: "text", ...STORED.indexed_block };
  const tables: Exclude<Table, "indexed_block">[] = ["delegation_change", "delegation_v1", "delegation_v2"];
  return union(
    columns,
    shards.flatMap((shard) => [
      ...tables.map((table) => nothing(columns, `from "${shard}".${table}`)),
      `select '${shard}', ${Object.keys(STORED.indexed_block).join(", ")} from "${shard}".indexed_block`,
    ]),
  );
};

/** Where the active delegations of a registry are. */
export const activeDelegations = (version: RegistryVersion) => `indexer.delegation_${version}`;

/** What makes two changes those of one delegation. */
export const IDENTITY = "chain_id, registry, vault, delegate, type, contract, token_id, rights";

/** The delegations of a registry that were active at a block, which is an expression. */
export const delegationsActiveAt = (version: RegistryVersion, block: string) => `(
  select * from (
    select distinct on (${IDENTITY}) *
    from indexer.delegation_change
    where registry = '${version}' and block_number <= ${block}
    order by ${IDENTITY}, block_number desc, log_index desc
  ) latest
  where active)`;

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
