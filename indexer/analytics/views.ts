import { CHANGED, DAY, HAS_CONTRACT, MADE, REVOKED } from "../../registry/activity.ts";
import { CONTRACT_OR_NULL, FULL_RIGHTS } from "../../registry/delegation.ts";
import { SHARD_TABLES, selectPeriods } from "./shard-tables.ts";

/** The columns of a view, by name. */
type Columns = Record<string, readonly [expression: string, comment: string]>;

export type View = {
  name: string;
  comment: string;
  columns: Columns;
  from: string;
  /** Keep the first row for each value of this expression. */
  distinctOn?: string;
};

/** Columns as data teams expect them: null for "not limited", and the API's names of types. */
export const DELEGATION = {
  chain_id: ["chain_id", "The chain's id."],
  registry: ["registry", "The registry: v1 or v2."],
  type: [
    "case when type in ('ALL', 'CONTRACT') then type else 'TOKEN' end",
    "The scope: ALL (the whole vault), CONTRACT, or TOKEN.",
  ],
  token_standard: [
    "case when type like 'ERC%' then type end",
    "The standard of a v2 TOKEN delegation: ERC721, ERC20 or ERC1155. Null for all others; v1 does not distinguish standards.",
  ],
  vault: [
    "vault",
    'The cold wallet, which made the delegation: "from" in v2, "vault" in v1. Lower-case hex, like all addresses.',
  ],
  delegate: ["delegate", 'The hot wallet, which may act for the vault: "to" in v2, "delegate" in v1.'],
  contract: [CONTRACT_OR_NULL, "The contract that it is limited to. Null for ALL."],
  token_id: [
    "case when type in ('TOKEN', 'ERC721', 'ERC1155') then token_id end",
    "The token that it is limited to. Null for ALL, CONTRACT and ERC20.",
  ],
  rights: [
    `nullif(rights, '${FULL_RIGHTS}')`,
    "The rights that it is limited to: bytes32 as lower-case hex. Null for full rights, which all v1 delegations have.",
  ],
  rights_text: [
    `case when rights ~ '^0x([2-6][0-9a-f]|7[0-9a-e])+(00)*$'
       then convert_from(rtrim(decode(substr(rights, 3), 'hex'), '\\x00'::bytea), 'UTF8') end`,
    "The rights as text, if they are printable ASCII. Null otherwise, and for full rights.",
  ],
} satisfies Columns;

const AMOUNT = "case when type in ('ERC20', 'ERC1155') then amount end";

const EVENT: Columns = {
  block_number: ["block_number", "The block of the event that made it active."],
  block_timestamp: ["to_timestamp(block_timestamp)", "The timestamp of that block."],
  transaction_hash: ["transaction_hash", "The transaction of that event."],
  log_index: ["log_index", "The index of that event in its block."],
};

/** The columns of `analytics.delegations`. */
export const DELEGATIONS: Columns = {
  ...DELEGATION,
  amount: [AMOUNT, "The balance delegated, of ERC20 and ERC1155. Null for all others."],
  ...EVENT,
};

export const selectColumns = (columns: Columns): string =>
  Object.entries(columns)
    .map(([name, [expression]]) => (expression === name ? name : `${expression} as ${name}`))
    .join(",\n  ");

const V2_COLUMNS = Object.keys(SHARD_TABLES.delegation_v2);
const toV1Column = (column: string) =>
  ({ rights: `'${FULL_RIGHTS}'::text as rights`, amount: "0::numeric(78,0) as amount" })[column] ?? column;

/** The shard that answers for each chain: the freshest, as in the API. */
export const CHAINS: View = {
  name: "analytics.chains",
  comment: "Every chain, with the shard that answers for it and its progress. A row is a chain.",
  columns: {
    chain_id: ["chain.chain_id", "The chain's id."],
    shard: ["index.shard", "The shard whose rows are shown. If several have the chain, the freshest."],
    indexed_block: [
      "block.number",
      "The newest block that the rows include. Null while the index is behind the chain: then no answer is certain.",
    ],
    indexed_block_timestamp: ["to_timestamp(block.timestamp)", "The timestamp of that block."],
    indexed_block_hash: ["block.hash", "The hash of that block."],
    final_block: ["block.finalized_number", "The newest block that no reorg can revert."],
    lag: [
      "greatest(now() - to_timestamp(block.timestamp), interval '0')",
      "The age of the newest indexed block. A chain with rare blocks has a lag although it is up to date.",
    ],
    lag_blocks: ["greatest(chain.newest_number - block.number, 0)", "Blocks that the chain was ahead at seen_at."],
    newest_block: ["chain.newest_number", "The chain's own newest block at seen_at."],
    newest_block_timestamp: ["to_timestamp(chain.newest_timestamp)", "The timestamp of that block."],
    reached_block: ["chain.reached_number", "The newest block whose events are stored: the progress of a backfill."],
    registry_v1: ["chain.v1", "The address of the v1 registry that is indexed. Null if none is indexed."],
    registry_v2: ["chain.v2", "The address of the v2 registry that is indexed. Null if none is indexed."],
    seen_at: ["chain.seen_at", "When the indexer last read the chain's newest block."],
    summed_block: [
      "summary.block",
      "The last block that the summaries for daily_activity and contracts include; both views read later changes from the log. Null until the summaries are complete for the first time.",
    ],
  },
  distinctOn: "chain.chain_id",
  from: `indexer.index
    join indexer.chain on chain.schema = index.schema
    left join indexer.shard on shard.name = index.shard and shard.schema = index.schema
    left join indexer.indexed_block block on block.shard = shard.name and block.chain_id = chain.chain_id
    left join indexer.summary on summary.schema = shard.schema and summary.chain_id = chain.chain_id and summary.complete
    order by chain.chain_id, block.timestamp desc nulls last, shard.name is null, index.started_at desc, index.shard`,
};

/**
 * Selects each chain's summary, and the later changes from the log: each change is in one of them. The log is named
 * first, to lock tables in a reorg's order. Per chain it is read from a block on, by its primary key.
 * @param columns the columns of the summary, with their types and their expressions for a change
 */
const selectSummary = (
  table: "daily_summary" | "contract_summary",
  columns: Record<string, readonly [type: string, expression: string]>,
  condition = "true",
): string => {
  const all = Object.entries(columns);
  return `
      select chain_id, ${all.map(([name, [type]]) => `null::${type} as ${name}`).join(", ")}
      from indexer.delegation_change where false
      union all
      select chain.chain_id, change.*
      from analytics.chains chain
      cross join lateral (
        select ${all.map(([, [, expression]]) => expression).join(", ")} from indexer.delegation_change
        where chain_id = chain.chain_id and block_number > coalesce(chain.summed_block, -1) and ${condition}
        offset 0
      ) change
      union all
      select chain.chain_id, ${all.map(([name]) => `summed.${name}`).join(", ")}
      from analytics.chains chain
      join indexer.shard on shard.name = chain.shard
      join indexer.${table} summed on summed.schema = shard.schema and summed.chain_id = chain.chain_id
      where chain.summed_block is not null`;
};

export const VIEWS: readonly View[] = [
  {
    name: "analytics.delegations",
    comment:
      "The delegations that are active now, in both registries on all chains. A row is a delegation. While a chain is catching up and analytics.chains has no indexed_block for it, its rows are those of an earlier block.",
    columns: DELEGATIONS,
    // The condition is always true. Postgres uses the indexes for lists only in statements that repeat it.
    from: `(
      select 'v1'::text as registry, ${V2_COLUMNS.map(toV1Column).join(", ")} from indexer.delegation_v1
      union all
      select 'v2'::text as registry, ${V2_COLUMNS.join(", ")} from indexer.delegation_v2
    ) delegation where block_number >= 0`,
  },
  {
    name: "analytics.changes",
    comment:
      "All changes of delegations. A row is a delegation that an event made, changed in amount or revoked; the latest row of a delegation is its state.",
    columns: {
      ...DELEGATION,
      active: ["active", "True if it was active after the change."],
      amount: [AMOUNT, "The balance delegated after the change, of ERC20 and ERC1155. Null for all others."],
      event: ["event", "The registry's event. An event that revokes many delegations has a row for each."],
      block_number: ["block_number", "The block of the event."],
      block_timestamp: ["to_timestamp(block_timestamp)", "The timestamp of that block."],
      transaction_hash: ["transaction_hash", "The transaction of the event."],
      log_index: ["log_index", "The index of the event in its block."],
      ordinal: [
        "ordinal",
        "The number of this change among its event's changes. With chain_id, block_number and log_index it identifies a row.",
      ],
    },
    from: "indexer.delegation_change",
  },
  {
    name: "analytics.lifetimes",
    comment:
      "Each period in which a delegation was active. A row is a period; a delegation that was revoked and made again has several.",
    columns: {
      ...DELEGATION,
      amount: [AMOUNT, "The balance delegated, as last set in the period, of ERC20 and ERC1155. Null for all others."],
      started_block: ["block_number", "The block of the event that made it active."],
      started_at: ["to_timestamp(block_timestamp)", "The timestamp of that block."],
      started_transaction_hash: ["transaction_hash", "The transaction of that event."],
      ended_block: ["ended_block", "The block of the event that ended it. Null while it is active."],
      ended_at: ["to_timestamp(ended_timestamp)", "The timestamp of that block. Null while it is active."],
      ended_transaction_hash: ["ended_transaction_hash", "The transaction of that event. Null while it is active."],
      ended_event: ["ended_event", "The registry's event that ended it. Null while it is active."],
      duration: [
        "to_timestamp(ended_timestamp) - to_timestamp(block_timestamp)",
        "The time that it was active. Null while it is active.",
      ],
    },
    from: `(${selectPeriods()}) period`,
  },
  {
    name: "analytics.daily_activity",
    comment:
      "Changes per day. A row is a day (UTC), chain, registry, type and token standard with at least one change.",
    columns: {
      day: ["day", "The day in UTC, by the blocks' timestamps."],
      chain_id: ["chain_id", "The chain's id."],
      registry: ["registry", "The registry: v1 or v2."],
      type: DELEGATION.type,
      token_standard: DELEGATION.token_standard,
      made: ["sum(made)::bigint", "Delegations that were made."],
      changed: ["sum(changed)::bigint", "Changes of an active delegation's amount; of ERC20 and ERC1155 only."],
      revoked: ["sum(revoked)::bigint", "Delegations that ended, in any way."],
    },
    from: `(${selectSummary("daily_summary", {
      day: ["date", DAY],
      registry: ["text", "registry"],
      type: ["text", "type"],
      made: ["bigint", `(${MADE})::int`],
      changed: ["bigint", `(${CHANGED})::int`],
      revoked: ["bigint", `(${REVOKED})::int`],
    })}) activity
    group by 1, 2, 3, 4, 5`,
  },
  {
    name: "analytics.contracts",
    comment: "Contracts with their numbers of delegations in both registries. A row is a contract on a chain.",
    columns: {
      chain_id: ["chain_id", "The chain's id."],
      contract: ["contract", "The contract."],
      delegations: ["sum(made - revoked)::bigint", "Active delegations for it or for one of its tokens."],
      made: ["sum(made)::bigint", "Delegations that were ever made."],
      revoked: ["sum(revoked)::bigint", "Delegations that ended."],
    },
    from: `(${selectSummary(
      "contract_summary",
      { contract: ["text", "contract"], made: ["bigint", `(${MADE})::int`], revoked: ["bigint", `(${REVOKED})::int`] },
      HAS_CONTRACT,
    )}) activity
    group by 1, 2`,
  },
  {
    name: "analytics.wallets",
    comment:
      "Wallets with their numbers of active delegations in both registries. A row is a wallet on a chain with at least one.",
    columns: {
      chain_id: ["chain_id", "The chain's id."],
      wallet: ["wallet", "The wallet."],
      delegations_out: ["count(*) filter (where is_vault)", "Delegations that it made, as the vault."],
      delegations_in: ["count(*) filter (where not is_vault)", "Delegations to it, as the delegate."],
      delegates: ["count(distinct other) filter (where is_vault)", "Wallets that it has delegated to."],
      vaults: ["count(distinct other) filter (where not is_vault)", "Wallets that have delegated to it."],
    },
    from: `(
      select chain_id, vault as wallet, delegate as other, true as is_vault from analytics.delegations
      union all
      select chain_id, delegate as wallet, vault as other, false as is_vault from analytics.delegations
    ) side
    group by chain_id, wallet`,
  },
];
