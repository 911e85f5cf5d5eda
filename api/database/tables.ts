import { sql } from "drizzle-orm";
import {
  bigint,
  boolean,
  customType,
  date,
  integer,
  jsonb,
  pgSchema,
  text,
  timestamp,
  uuid,
} from "drizzle-orm/pg-core";
import type { Hex } from "viem";
import type * as ponder from "../../ponder.schema.ts";
import type { DelegationTypeV1, DelegationTypeV2 } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import type { Filters, Finality } from "../changes/filters.ts";

// The tables that the API reads and writes, for drizzle. The index's tables are declared again because importing
// ponder.schema.ts, and Ponder with it, would take the API seconds and 100 MB.

const uint256 = customType<{ data: bigint; driverData: string }>({
  dataType: () => "numeric(78, 0)",
  fromDriver: BigInt,
  toDriver: String,
});
const hex = customType<{ data: Hex; driverData: string }>({ dataType: () => "text" });
const chainId = () => bigint({ mode: "number" }).notNull();

/** Key columns of a delegation, without its type. */
const identity = () => ({
  chainId: chainId(),
  vault: hex().notNull(),
  delegate: hex().notNull(),
  contract: hex().notNull(),
  tokenId: uint256().notNull(),
});

/** Position of an event on its chain. */
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

/** Fails to compile if a table's columns differ from those in ponder.schema.ts. */
const ponderTable =
  <Theirs extends { $inferSelect: object }, Added extends string = never>() =>
  <Ours extends { $inferSelect: object }>(
    table: Same<Omit<RowOf<Ours>, Added>, Omit<RowOf<Theirs>, Added>> extends true ? Ours : never,
  ): Ours =>
    table;

/** @param schema - the shard's schema, which has the views of the served index */
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
        madeBlock: bigint({ mode: "bigint" }).notNull(),
        madeLogIndex: integer().notNull(),
        event: text().notNull(),
      }),
    ),
    indexedBlock: ponderTable<typeof ponder.indexedBlock, "finalizedNumber" | "finalizedTimestamp">()(
      shard.table("indexed_block", {
        chainId: chainId(),
        number: bigint({ mode: "bigint" }).notNull(),
        hash: hex().notNull(),
        timestamp: bigint({ mode: "bigint" }).notNull(),
        /** Only in the view, to which the indexer adds them. */
        finalizedNumber: bigint({ mode: "bigint" }).notNull(),
        finalizedTimestamp: bigint({ mode: "bigint" }).notNull(),
      }),
    ),
  };
};

/** Active delegations of a registry. The v2 table has all columns of v1. */
export const delegationTable = (schema: string, version: RegistryVersion) => {
  const { delegationV1, delegationV2 } = indexTables(schema);
  return version === "v1" ? delegationV1 : (delegationV2 as unknown as typeof delegationV1);
};

export type IndexTables = ReturnType<typeof indexTables>;

// Tables in which indexers report their state.

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
  seenAt: timestamp({ withTimezone: true }).notNull(),
});

// The API's own tables: api/database/migrations/ creates them.

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

export const blockedOwner = service.table("blocked_owner", {
  owner: text().primaryKey(),
  blockedAt: time().notNull().default(sql`now()`),
});

/** Wallets about which a proof said something else than the index. */
export const contradicted = service.table("contradicted", {
  chainId: bigint({ mode: "number" }).notNull(),
  wallet: text().notNull(),
  block: bigint({ mode: "number" }).notNull(),
  foundAt: time().notNull().default(sql`clock_timestamp()`),
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
  /** Null in rows of API processes older than migration 5. */
  message: text(),
  browser: text().notNull(),
  wallet: hex().notNull(),
  chainId: chainId(),
  expiresAt: time().notNull(),
});

export const session = service.table("session", {
  token: text().primaryKey(),
  owner: text().notNull(),
  expiresAt: time().notNull(),
});

export const webhook = service.table("webhook", {
  id: text().primaryKey(),
  owner: text(),
  slot: integer(),
  url: text().notNull(),
  filters: jsonb().$type<Filters>().notNull(),
  chainIds: bigint({ mode: "number" }).array().notNull(),
  finality: text().$type<Finality>().notNull(),
  cursor: text().notNull(),
  secret: text().notNull(),
  previousSecret: text(),
  previousSecretUntil: time(),
  createdAt: time().notNull().default(sql`now()`),
  failingSince: time(),
  nextAttemptAt: time(),
  pausedAt: time(),
  pausedReason: text(),
});

export const webhookDelivery = service.table("webhook_delivery", {
  id: bigint({ mode: "bigint" }).primaryKey().generatedAlwaysAsIdentity(),
  webhookId: text().notNull(),
  messageId: text().notNull(),
  type: text().notNull(),
  body: text().notNull(),
  cursor: text(),
  askedAt: time(),
  attempts: integer().notNull().default(0),
  sentAt: time(),
  status: integer(),
  error: text(),
  answer: text(),
  milliseconds: integer(),
  deliveredAt: time(),
  createdAt: time().notNull().default(sql`date_trunc('second', now())`),
});

export const webhookWorker = service.table("webhook_worker", {
  isOnly: boolean().primaryKey().default(true),
  id: uuid().notNull(),
  expiresAt: time().notNull(),
});
