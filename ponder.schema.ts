import { index, onchainTable, primaryKey, sql } from "ponder";
import { CONTRACT_OR_NULL, type DelegationTypeV1, type DelegationTypeV2 } from "./registry/delegation.ts";
import type { RegistryVersion } from "./registry/networks.ts";
import { type End, IS_MADE, KEY_HASH, scopeHash } from "./registry/state-at.ts";

// Addresses, rights and hashes are lower-case hex. A key column is never null: if a delegation has no contract, token or
// rights, the column is zero.

/**
 * Always true. Postgres uses an index with this condition only for statements that repeat it: lists do, checks do not.
 * Postgres estimates that a check costs the same by such an index as by the primary key. That is wrong for a wallet with
 * many delegations, and anybody can delegate to any wallet.
 */
const forListsOnly = sql`block_number >= 0`;

/** The same for outgoing lists. It excludes a wallet's delegations to itself, so any number of them costs nothing. */
const forOutgoingLists = sql`block_number >= 0 and vault <> delegate`;

/** For data teams, who query the delegations for a contract. */
const contractOrNull = sql.raw(`(${CONTRACT_OR_NULL})`);

/** For the vaults of a hot wallet, and the reverse: by one of the wallets and the scope, whatever other scopes it has. */
const byScope = (end: End, table: RegistryVersion | "log") => sql.raw(scopeHash(end, table));

/** The log: one row for each delegation that an event made, changed in amount, or revoked. */
export const delegationChange = onchainTable(
  "delegation_change",
  (t) => ({
    chainId: t.int8({ mode: "number" }).notNull(),
    blockNumber: t.int8({ mode: "bigint" }).notNull(),
    logIndex: t.integer().notNull(),
    /** The number of the change among its event's changes: a mass revocation has one per delegation. */
    ordinal: t.integer().notNull(),

    registry: t.text().$type<RegistryVersion>().notNull(),
    vault: t.hex().notNull(),
    delegate: t.hex().notNull(),
    type: t.text().$type<DelegationTypeV1 | DelegationTypeV2>().notNull(),
    contract: t.hex().notNull(),
    tokenId: t.bigint().notNull(),
    rights: t.hex().notNull(),

    active: t.boolean().notNull(),
    /** The delegated balance after the change; zero for types without a balance. */
    amount: t.bigint().notNull(),

    event: t.text().notNull(),
    blockTimestamp: t.int8({ mode: "bigint" }).notNull(),
    transactionHash: t.hex().notNull(),
    /** True if it was active before: distinguishes a change of the amount from a new delegation. */
    wasActive: t.boolean().notNull(),
    /** The event that made the delegation: of this change, or of an earlier one if it was active. */
    madeBlock: t.int8({ mode: "bigint" }).notNull(),
    madeLogIndex: t.integer().notNull(),
  }),
  (table) => ({
    pk: primaryKey({ columns: [table.chainId, table.blockNumber, table.logIndex, table.ordinal] }),
    // The ordinal makes the indexes no larger, and a page within a mass revocation is found like any other page.
    byVault: index("delegation_change_vault_index").on(
      table.chainId,
      table.vault,
      table.blockNumber,
      table.logIndex,
      table.ordinal,
    ),
    byDelegate: index("delegation_change_delegate_index").on(
      table.chainId,
      table.delegate,
      table.blockNumber,
      table.logIndex,
      table.ordinal,
    ),
    // For the state at a past block: finds a delegation's latest change up to it.
    byDelegation: index("delegation_change_delegation_index").on(
      sql.raw(KEY_HASH),
      table.blockNumber,
      table.logIndex,
      table.ordinal,
    ),
    byVaultScope: index("delegation_change_vault_scope_index")
      .on(byScope("vault", "log"), table.blockNumber, table.logIndex)
      .where(sql.raw(IS_MADE)),
    byDelegateScope: index("delegation_change_delegate_scope_index")
      .on(byScope("delegate", "log"), table.blockNumber, table.logIndex)
      .where(sql.raw(IS_MADE)),
    // For the newest block up to a time.
    byTime: index("delegation_change_time_index").on(table.chainId, table.blockTimestamp, table.blockNumber),
    byContract: index("delegation_change_contract_index").on(table.chainId, contractOrNull, table.blockNumber),
  }),
);

/** The active v1 delegations, each with the position of the event that made it. */
export const delegationV1 = onchainTable(
  "delegation_v1",
  (t) => ({
    chainId: t.int8({ mode: "number" }).notNull(),
    vault: t.hex().notNull(),
    delegate: t.hex().notNull(),
    type: t.text().$type<DelegationTypeV1>().notNull(),
    contract: t.hex().notNull(),
    tokenId: t.bigint().notNull(),

    blockNumber: t.int8({ mode: "bigint" }).notNull(),
    logIndex: t.integer().notNull(),
    blockTimestamp: t.int8({ mode: "bigint" }).notNull(),
    transactionHash: t.hex().notNull(),
  }),
  (table) => ({
    pk: primaryKey({
      columns: [table.chainId, table.vault, table.delegate, table.type, table.contract, table.tokenId],
    }),
    byVault: index().on(table.chainId, table.vault, table.blockNumber, table.logIndex).where(forOutgoingLists),
    byDelegate: index().on(table.chainId, table.delegate, table.blockNumber, table.logIndex).where(forListsOnly),
    byVaultScope: index("delegation_v1_vault_scope_index").on(
      byScope("vault", "v1"),
      table.blockNumber,
      table.logIndex,
    ),
    byDelegateScope: index("delegation_v1_delegate_scope_index").on(
      byScope("delegate", "v1"),
      table.blockNumber,
      table.logIndex,
    ),
    byContract: index("delegation_v1_contract_index").on(table.chainId, contractOrNull),
  }),
);

/** The active v2 delegations, each with the position of the event that made it. */
export const delegationV2 = onchainTable(
  "delegation_v2",
  (t) => ({
    chainId: t.int8({ mode: "number" }).notNull(),
    vault: t.hex().notNull(),
    delegate: t.hex().notNull(),
    type: t.text().$type<DelegationTypeV2>().notNull(),
    contract: t.hex().notNull(),
    tokenId: t.bigint().notNull(),
    rights: t.hex().notNull(),

    /** The delegated balance; zero for types without a balance. */
    amount: t.bigint().notNull(),

    blockNumber: t.int8({ mode: "bigint" }).notNull(),
    logIndex: t.integer().notNull(),
    blockTimestamp: t.int8({ mode: "bigint" }).notNull(),
    transactionHash: t.hex().notNull(),
  }),
  (table) => ({
    pk: primaryKey({
      columns: [table.chainId, table.vault, table.delegate, table.type, table.contract, table.tokenId, table.rights],
    }),
    byVault: index().on(table.chainId, table.vault, table.blockNumber, table.logIndex).where(forOutgoingLists),
    byDelegate: index().on(table.chainId, table.delegate, table.blockNumber, table.logIndex).where(forListsOnly),
    byVaultScope: index("delegation_v2_vault_scope_index").on(
      byScope("vault", "v2"),
      table.blockNumber,
      table.logIndex,
    ),
    byDelegateScope: index("delegation_v2_delegate_scope_index").on(
      byScope("delegate", "v2"),
      table.blockNumber,
      table.logIndex,
    ),
    byContract: index("delegation_v2_contract_index").on(table.chainId, contractOrNull),
  }),
);

/**
 * The newest block that a chain's rows include. It is written and reverted with them, unlike Ponder's own checkpoint,
 * which is ahead for a moment during a reorg. Only live blocks are written: after each start of the indexer, a chain has
 * no row until it has caught up.
 */
export const indexedBlock = onchainTable("indexed_block", (t) => ({
  chainId: t.int8({ mode: "number" }).primaryKey(),
  number: t.int8({ mode: "bigint" }).notNull(),
  hash: t.hex().notNull(),
  timestamp: t.int8({ mode: "bigint" }).notNull(),
}));

/**
 * The list of a v1 vault's delegations, if it is short. A mass revocation finds them here by key, in memory. Before a
 * query Ponder would flush all cached rows, which makes a backfill slow.
 */
export const vaultV1 = onchainTable(
  "vault_v1",
  (t) => ({
    chainId: t.int8({ mode: "number" }).notNull(),
    vault: t.hex().notNull(),

    /** The vault's rows of delegation_v1, oldest first, separated by commas; null if they are many. */
    delegations: t.text(),
  }),
  (table) => ({
    pk: primaryKey({ columns: [table.chainId, table.vault] }),
  }),
);
