import { sql } from "drizzle-orm";
import { bigint, boolean, customType, date, integer, pgSchema, text, timestamp, uuid } from "drizzle-orm/pg-core";
import type { Hex } from "viem";
import type * as ponder from "../ponder.schema.ts";
import type { DelegationTypeV1, DelegationTypeV2 } from "../registry/delegation.ts";
import type { RegistryVersion } from "../registry/networks.ts";

// The tables that the API reads and writes, as drizzle knows them. Those of the index are Ponder's: it would take the
// API seconds and 100 MB to load them from there.

const uint256 = customType<{ data: bigint; driverData: string }>({
  dataType: () => "numeric(78, 0)",
  fromDriver: BigInt,
  toDriver: String,
});
const hex = customType<{ data: Hex; driverData: string }>({ dataType: () => "text" });
const chainId = () => bigint({ mode: "number" }).notNull();

/** What identifies a delegation, but for its type. */
const identity = () => ({
  chainId: chainId(),
  vault: hex().notNull(),
  delegate: hex().notNull(),
  contract: hex().notNull(),
  tokenId: uint256().notNull(),
});

/** Where on the chain an event stands. */
const position = () => ({
  blockNumber: bigint({ mode: "bigint" }).notNull(),
  logIndex: integer().notNull(),
  blockTimestamp: bigint({ mode: "bigint" }).notNull(),
  transactionHash: hex().notNull(),
});

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type RowOf<Table extends { $inferSelect: object }> = {
  [Column in keyof Table["$inferSelect"]]: Table["$inferSelect"][Column];
};

/** A table of Ponder's: it does not compile with other columns than Ponder has. */
const ponderTable =
  <Theirs extends { $inferSelect: object }, Added extends string = never>() =>
  <Ours extends { $inferSelect: object }>(
    table: Same<Omit<RowOf<Ours>, Added>, Omit<RowOf<Theirs>, Added>> extends true ? Ours : never,
  ): Ours =>
    table;

/** The tables of an index, by the schema of the shard's views. */
export const indexTables = (schema: string) => {
  const shard = pgSchema(schema);
  return {
    delegationV1: ponderTable<typeof ponder.delegationV1>()(
      shard.table("delegation_v1", {
        ...identity(),
        ...position(),
        type: text().$type<DelegationTypeV1>().notNull(),
      }),
    ),
    delegationV2: ponderTable<typeof ponder.delegationV2>()(
      shard.table("delegation_v2", {
        ...identity(),
        ...position(),
        type: text().$type<DelegationTypeV2>().notNull(),
        rights: hex().notNull(),
        amount: uint256().notNull(),
      }),
    ),
    delegationChange: ponderTable<typeof ponder.delegationChange>()(
      shard.table("delegation_change", {
        ...identity(),
        ...position(),
        type: text().$type<DelegationTypeV1 | DelegationTypeV2>().notNull(),
        rights: hex().notNull(),
        amount: uint256().notNull(),
        ordinal: integer().notNull(),
        registry: text().$type<RegistryVersion>().notNull(),
        active: boolean().notNull(),
        wasActive: boolean().notNull(),
        event: text().notNull(),
      }),
    ),
    indexedBlock: ponderTable<typeof ponder.indexedBlock, "finalizedNumber">()(
      shard.table("indexed_block", {
        chainId: chainId(),
        number: bigint({ mode: "bigint" }).notNull(),
        hash: hex().notNull(),
        timestamp: bigint({ mode: "bigint" }).notNull(),
        /** Of the view alone: the indexer adds it. */
        finalizedNumber: bigint({ mode: "bigint" }).notNull(),
      }),
    ),
  };
};

/** The active delegations of a registry. v2 has all columns of v1. */
export const delegationTable = (schema: string, version: RegistryVersion) => {
  const { delegationV1, delegationV2 } = indexTables(schema);
  return version === "v1" ? delegationV1 : (delegationV2 as unknown as typeof delegationV1);
};

export type IndexTables = ReturnType<typeof indexTables>;

// What indexers say of themselves.

const indexer = pgSchema("indexer");

export const shard = indexer.table("shard", { name: text().primaryKey(), schema: text().notNull() });

export const index = indexer.table("index", {
  schema: text().primaryKey(),
  shard: text().notNull(),
  startedAt: timestamp({ withTimezone: true }).notNull(),
});

export const chain = indexer.table("chain", {
  schema: text().notNull(),
  chainId: chainId(),
  newestNumber: bigint({ mode: "number" }).notNull(),
  newestTimestamp: bigint({ mode: "number" }).notNull(),
  reachedNumber: bigint({ mode: "number" }).notNull(),
  v1: text(),
  v2: text(),
});

// The API's own: api/migrations/ makes them.

const service = pgSchema("service");
const time = () => timestamp({ withTimezone: true });

export const apiKey = service.table("api_key", {
  id: bigint({ mode: "bigint" }).primaryKey().generatedAlwaysAsIdentity(),
  name: text().notNull(),
  prefix: text().notNull(),
  hash: text().notNull(),
  createdAt: time().notNull().default(sql`now()`),
  revokedAt: time(),
  owner: text(),
  slot: integer(),
});

export const apiKeyUsage = service.table("api_key_usage", {
  apiKeyId: bigint({ mode: "bigint" }).notNull(),
  day: date({ mode: "string" }).notNull(),
  requests: bigint({ mode: "bigint" }).notNull(),
  lastUsedAt: time().notNull(),
});

export const usageWriter = service.table("usage_writer", {
  id: uuid().primaryKey(),
  batch: bigint({ mode: "number" }).notNull(),
  writtenAt: time().notNull(),
});

export const signIn = service.table("sign_in", {
  nonce: text().primaryKey(),
  browser: text().notNull(),
  wallet: text().notNull(),
  chainId: chainId(),
  expiresAt: time().notNull(),
});

export const session = service.table("session", {
  token: text().primaryKey(),
  owner: text().notNull(),
  expiresAt: time().notNull(),
});
