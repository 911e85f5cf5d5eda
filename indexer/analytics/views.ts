import { CHANGED, DAY, MADE, OF_A_CONTRACT, REVOKED } from "../../registry/activity.ts";
import { CONTRACT_OR_NULL, FULL_RIGHTS } from "../../registry/delegation.ts";
import { periods, STORED } from "./stored.ts";

/** A column of a view: its expression, and what it says. */
type Columns = Record<string, readonly [expression: string, comment: string]>;

export type View = {
  name: string;
  comment: string;
  columns: Columns;
  from: string;
  /** Of rows that are the same in this, the first. */
  distinctOn?: string;
};

/** As people expect it: null for "not limited", the API's words for types. */
const DELEGATION = {
  chain_id: ["chain_id", "The chain, by its id."],
  registry: ["registry", "The registry: v1 or v2."],
  type: [
    "case when type in ('ALL', 'CONTRACT') then type else 'TOKEN' end",
    "How far it reaches: ALL (the whole vault), CONTRACT, or TOKEN.",
  ],
  token_standard: [
    "case when type like 'ERC%' then type end",
    "Of a v2 TOKEN delegation: ERC721, ERC20 or ERC1155. Null for all others; v1 does not tell tokens apart.",
  ],
  vault: [
    "vault",
    'The cold wallet, which issued the delegation: "from" in v2, "vault" in v1. Lower-case hex, as all addresses.',
  ],
  delegate: ["delegate", 'The hot wallet, which may act for the vault: "to" in v2, "delegate" in v1.'],
  contract: [CONTRACT_OR_NULL, "The contract that it is limited to. Null for ALL."],
  token_id: [
    "case when type in ('TOKEN', 'ERC721', 'ERC1155') then token_id end",
    "The token that it is limited to. Null for ALL, CONTRACT and ERC20.",
  ],
  rights: [
    `nullif(rights, '${FULL_RIGHTS}')`,
    "The rights that it is limited to: bytes32 as lower-case hex. Null for full rights, which is all that v1 knows.",
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
  block_timestamp: ["to_timestamp(block_timestamp)", "When that block was made."],
  transaction_hash: ["transaction_hash", "The transaction of that event."],
  log_index: ["log_index", "The place of that event among those of its block."],
};

/** What a delegation is, in the order of the columns of `analytics.delegations`. */
export const DELEGATIONS: Columns = {
  ...DELEGATION,
  amount: [AMOUNT, "The balance delegated, of ERC20 and ERC1155. Null for all others."],
  ...EVENT,
};

export const selectColumns = (columns: Columns): string =>
  Object.entries(columns)
    .map(([name, [expression]]) => (expression === name ? name : `${expression} as ${name}`))
    .join(",\n  ");

const V2_COLUMNS = Object.keys(STORED.delegation_v2);
const ofV1 = (column: string) =>
  ({ rights: `'${FULL_RIGHTS}'::text as rights`, amount: "0::numeric(78,0) as amount" })[column] ?? column;

/** Which shard answers for each chain: the freshest, as in the API. */
export const CHAINS: View = {
  name: "analytics.chains",
  comment: "Every chain, with the shard that answers for it and how far that is. A row is a chain.",
  columns: {
    chain_id: ["chain.chain_id", "The chain, by its id."],
    shard: ["index.shard", "The shard whose rows are shown. Of several that have the chain, the freshest."],
    indexed_block: [
      "block.number",
      "The newest block that the rows include. Null while the index is behind the chain: then nothing can be said of it for certain.",
    ],
    indexed_block_timestamp: ["to_timestamp(block.timestamp)", "When that block was made."],
    indexed_block_hash: ["block.hash", "The hash of that block."],
    final_block: ["block.finalized_number", "The newest block that no reorg can undo any more."],
    lag: [
      "greatest(now() - to_timestamp(block.timestamp), interval '0')",
      "How old the newest indexed block is. A chain that makes blocks rarely lags, and is up to date.",
    ],
    lag_blocks: [
      "greatest(chain.newest_number - block.number, 0)",
      "How many blocks the chain was ahead, when it was last looked at.",
    ],
    newest_block: ["chain.newest_number", "The chain's own newest block, when it was last looked at."],
    newest_block_timestamp: ["to_timestamp(chain.newest_timestamp)", "When that block was made."],
    reached_block: [
      "chain.reached_number",
      "The newest block whose events are stored: how far a catching up has come.",
    ],
    registry_v1: ["chain.v1", "The address of the v1 registry that is indexed. Null if none is."],
    registry_v2: ["chain.v2", "The address of the v2 registry that is indexed. Null if none is."],
    seen_at: ["chain.seen_at", "When the chain was last looked at."],
    summed_block: [
      "summary.block",
      "The block up to which its changes are summed up, for daily_activity and contracts; what came later they read from the log. Null until all was summed up once.",
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
 * What is summed up of each chain, and what came later, from the log: each change is in one of them. The log is
 * named first, for the order in which tables are locked; and for each chain it is read from a block on, by its key.
 * @param columns the columns of the sums by their types, and how each is told of a change
 */
const sums = (
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
      "The delegations that are active now, in both registries on all chains. A row is a delegation. While a chain is catching up, and analytics.chains has no indexed_block for it, they are those of some earlier block.",
    columns: DELEGATIONS,
    // Always true of a block: the indexes for lists serve only those who say it.
    from: `(
      select 'v1'::text as registry, ${V2_COLUMNS.map(ofV1).join(", ")} from indexer.delegation_v1
      union all
      select 'v2'::text as registry, ${V2_COLUMNS.join(", ")} from indexer.delegation_v2
    ) delegation where block_number >= 0`,
  },
  {
    name: "analytics.changes",
    comment:
      "All that ever happened to delegations. A row is a delegation that an event switched on, re-amounted or switched off; the latest of a delegation is its state.",
    columns: {
      ...DELEGATION,
      active: ["active", "Whether it was active after the change."],
      amount: [AMOUNT, "The balance delegated after the change, of ERC20 and ERC1155. Null for all others."],
      event: ["event", "The registry's event. One that revokes many makes a row for each that it ended."],
      block_number: ["block_number", "The block of the event."],
      block_timestamp: ["to_timestamp(block_timestamp)", "When that block was made."],
      transaction_hash: ["transaction_hash", "The transaction of the event."],
      log_index: ["log_index", "The place of the event among those of its block."],
      ordinal: [
        "ordinal",
        "Which of its event's changes this is. With chain_id, block_number and log_index it identifies a row.",
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
      started_at: ["to_timestamp(block_timestamp)", "When that block was made."],
      started_transaction_hash: ["transaction_hash", "The transaction of that event."],
      ended_block: ["ended_block", "The block of the event that ended it. Null while it is active."],
      ended_at: ["to_timestamp(ended_timestamp)", "When that block was made. Null while it is active."],
      ended_transaction_hash: ["ended_transaction_hash", "The transaction of that event. Null while it is active."],
      ended_event: ["ended_event", "The registry's event that ended it. Null while it is active."],
      duration: [
        "to_timestamp(ended_timestamp) - to_timestamp(block_timestamp)",
        "How long it was active. Null while it is.",
      ],
    },
    from: `(${periods()}) period`,
  },
  {
    name: "analytics.daily_activity",
    comment:
      "What happened on each day. A row is a day (UTC), chain, registry, type and token standard with at least one change.",
    columns: {
      day: ["day", "The day in UTC, by the blocks' timestamps."],
      chain_id: ["chain_id", "The chain, by its id."],
      registry: ["registry", "The registry: v1 or v2."],
      type: DELEGATION.type,
      token_standard: DELEGATION.token_standard,
      made: ["sum(made)::bigint", "How many delegations were made."],
      changed: [
        "sum(changed)::bigint",
        "How often the amount of an active one was changed; of ERC20 and ERC1155 only.",
      ],
      revoked: ["sum(revoked)::bigint", "How many ended, in whatever way."],
    },
    from: `(${sums("daily_summary", {
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
    comment: "Contracts with their numbers of delegations, of both registries. A row is a contract on a chain.",
    columns: {
      chain_id: ["chain_id", "The chain, by its id."],
      contract: ["contract", "The contract."],
      delegations: [
        "sum(made - revoked)::bigint",
        "How many delegations for it, or for one of its tokens, are active.",
      ],
      made: ["sum(made)::bigint", "How many were ever made."],
      revoked: ["sum(revoked)::bigint", "How many of them ended."],
    },
    from: `(${sums(
      "contract_summary",
      { contract: ["text", "contract"], made: ["bigint", `(${MADE})::int`], revoked: ["bigint", `(${REVOKED})::int`] },
      OF_A_CONTRACT,
    )}) activity
    group by 1, 2`,
  },
  {
    name: "analytics.wallets",
    comment:
      "Wallets with their numbers of active delegations, both registries together. A row is a wallet on a chain that has at least one.",
    columns: {
      chain_id: ["chain_id", "The chain, by its id."],
      wallet: ["wallet", "The wallet."],
      delegations_out: ["count(*) filter (where is_vault)", "How many delegations it has issued, as the vault."],
      delegations_in: ["count(*) filter (where not is_vault)", "How many it was given, as the delegate."],
      delegates: ["count(distinct other) filter (where is_vault)", "To how many wallets it has delegated."],
      vaults: ["count(distinct other) filter (where not is_vault)", "By how many wallets it was delegated to."],
    },
    from: `(
      select chain_id, vault as wallet, delegate as other, true as is_vault from analytics.delegations
      union all
      select chain_id, delegate as wallet, vault as other, false as is_vault from analytics.delegations
    ) side
    group by chain_id, wallet`,
  },
];
