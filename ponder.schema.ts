import { index, onchainTable, primaryKey, sql } from "ponder";
import { CONTRACT_OR_NULL, type DelegationTypeV1, type DelegationTypeV2 } from "./registry/delegation.ts";
import type { RegistryVersion } from "./registry/networks.ts";

// Addresses, rights and hashes are lower-case hex. A column of a key is never null: where a
// delegation has no contract, token or rights, the column is zero.

/**
 * Always true. An index with this condition serves only statements that repeat it: lists do, checks do
 * not. To Postgres a check seems as cheap by such an index as by the primary key, and it is not for a
 * wallet with many delegations, which anybody can be given.
 */
const forListsOnly = sql`block_number >= 0`;

/** The same for a wallet's outgoing list, where delegations to itself are left out: any number of them costs nothing. */
const forOutgoingLists = sql`block_number >= 0 and vault <> delegate`;

/** For data teams, who ask for all that was delegated for a contract. */
const contractOrNull = sql.raw(`(${CONTRACT_OR_NULL})`);

/** The log: one row for each delegation that an event switched on, re-amounted or switched off. */
export const delegationChange = onchainTable(
  "delegation_change",
  (t) => ({
    chainId: t.int8({ mode: "number" }).notNull(),
    blockNumber: t.int8({ mode: "bigint" }).notNull(),
    logIndex: t.integer().notNull(),
    /** Which of its event's changes this is: a mass revocation writes one for each delegation it ended. */
    ordinal: t.integer().notNull(),

    registry: t.text().$type<RegistryVersion>().notNull(),
    vault: t.hex().notNull(),
    delegate: t.hex().notNull(),
    type: t.text().$type<DelegationTypeV1 | DelegationTypeV2>().notNull(),
    contract: t.hex().notNull(),
    tokenId: t.bigint().notNull(),
    rights: t.hex().notNull(),

    active: t.boolean().notNull(),
    /** The delegated balance after the change; zero for types that have none. */
    amount: t.bigint().notNull(),

    event: t.text().notNull(),
    blockTimestamp: t.int8({ mode: "bigint" }).notNull(),
    transactionHash: t.hex().notNull(),
    /** Whether it was active before: it tells a delegation that was made from one that was changed. */
    wasActive: t.boolean().notNull(),
  }),
  (table) => ({
    pk: primaryKey({ columns: [table.chainId, table.blockNumber, table.logIndex, table.ordinal] }),
    // With the ordinal, which makes them no larger: a part of a mass revocation is found as any other part.
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
    byContract: index("delegation_change_contract_index").on(table.chainId, contractOrNull, table.blockNumber),
  }),
);

/** The v1 delegations that are active now, each with the event that made it active. */
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
    byContract: index("delegation_v1_contract_index").on(table.chainId, contractOrNull),
  }),
);

/** The v2 delegations that are active now, each with the event that made it active. */
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

    /** The delegated balance as last set; zero for types that have none. */
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
    byContract: index("delegation_v2_contract_index").on(table.chainId, contractOrNull),
  }),
);

/**
 * The newest block that the rows of a chain include. Written with them and undone with them, which
 * Ponder's own checkpoint is not: that one stays ahead for a moment during a reorg. It is written for
 * live blocks only: while a chain catches up, it has no row here, from each start of the indexer on.
 */
export const indexedBlock = onchainTable("indexed_block", (t) => ({
  chainId: t.int8({ mode: "number" }).primaryKey(),
  number: t.int8({ mode: "bigint" }).notNull(),
  hash: t.hex().notNull(),
  timestamp: t.int8({ mode: "bigint" }).notNull(),
}));

/**
 * What a v1 vault has delegated, while that is little: a revocation of many at once finds them here by
 * key, in memory. To find them by a query Ponder would first write all that it holds, which makes
 * history slow.
 */
export const vaultV1 = onchainTable(
  "vault_v1",
  (t) => ({
    chainId: t.int8({ mode: "number" }).notNull(),
    vault: t.hex().notNull(),

    /** The vault's rows of delegation_v1, oldest first, a line for each; null when they are many. */
    delegations: t.text(),
  }),
  (table) => ({
    pk: primaryKey({ columns: [table.chainId, table.vault] }),
  }),
);
