import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import pg from "pg";
import { type Hex, zeroHash } from "viem";
import type { DelegationKeyV1, DelegationKeyV2 } from "../../registry/delegation.ts";

/** A connection or a pool. */
export type Queries = pg.Client | pg.Pool;

/** Thrown when an answer is for another block than the expected one. */
export class BlockMismatchError extends Error {
  override name = "BlockMismatchError";
}

/** Lists the schemas of all indexes of the shard "registry", served or not. */
export const findIndexes = async (database: Queries): Promise<string[]> => {
  const { rows } = await database.query("select nspname from pg_namespace where nspname ~ '^registry_[0-9a-f]{10}$'");
  return rows.map(({ nspname }) => nspname);
};

export type DelegationV1 = DelegationKeyV1;
export type DelegationV2 = DelegationKeyV2 & { amount: bigint };

/** Active delegations of one chain at one block. */
export type State = { v1: DelegationV1[]; v2: DelegationV2[] };

/** Columns of the change log that rebuilding the state needs. */
type Change = {
  registry: "v1" | "v2";
  block_number: bigint;
  active: boolean;
  amount: bigint;
} & DelegationKeyV2;

export type IndexSnapshot = {
  block: { number: bigint; hash: Hex };
  state: State;
  log: Change[];
};

const parseBigints = (row: Record<string, unknown>) => {
  const { token_id, ...rest } = row;
  return {
    ...rest,
    tokenId: BigInt(String(token_id)),
    ...("amount" in row && { amount: BigInt(String(row.amount)) }),
    ...("block_number" in row && { block_number: BigInt(String(row.block_number)) }),
  };
};

/** Reads block, state and log of a chain in one transaction. Null while the index names no block. */
export const readIndexSnapshot = async (
  databaseUrl: string,
  schema: string,
  chainId: number,
): Promise<IndexSnapshot | null> => {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  try {
    await client.query("begin isolation level repeatable read read only");
    const rows = async (text: string) => (await client.query(text, [chainId])).rows;
    // In the order in which a reorg locks the tables.
    const log = await rows(
      `select registry, block_number, active, amount, vault, delegate, type, contract, token_id, rights
       from ${schema}.delegation_change where chain_id = $1 order by block_number, log_index, ordinal`,
    );
    const v1 = await rows(
      `select vault, delegate, type, contract, token_id from ${schema}.delegation_v1 where chain_id = $1`,
    );
    const v2 = await rows(
      `select vault, delegate, type, contract, token_id, rights, amount from ${schema}.delegation_v2 where chain_id = $1`,
    );
    const [block] = await rows(`select number, hash from ${schema}.indexed_block where chain_id = $1`);
    if (!block) return null;
    return {
      block: { number: BigInt(block.number), hash: block.hash },
      state: { v1: v1.map(parseBigints) as DelegationV1[], v2: v2.map(parseBigints) as DelegationV2[] },
      log: log.map(parseBigints) as Change[],
    };
  } finally {
    await client.end();
  }
};

/** Rebuilds the state at a past block from the latest change of each delegation. */
export const rebuildState = (log: readonly Change[], block: bigint): State => {
  const latest = new Map<string, Change>();
  for (const change of log) {
    if (change.block_number > block) break;
    const { registry, vault, delegate, type, contract, tokenId, rights } = change;
    latest.set([registry, vault, delegate, type, contract, tokenId, rights].join(), change);
  }
  const active = [...latest.values()].filter((change) => change.active);
  const keyOf = ({ vault, delegate, type, contract, tokenId }: Change) => ({
    vault,
    delegate,
    type,
    contract,
    tokenId,
  });
  return {
    v1: active.filter(({ registry }) => registry === "v1").map((change) => keyOf(change) as DelegationV1),
    v2: active
      .filter(({ registry }) => registry === "v2")
      .map((change) => ({ ...keyOf(change), rights: change.rights, amount: change.amount }) as DelegationV2),
  };
};

/** Dumps tables as text, to compare two indexes row by row. */
export const dumpTables = async (databaseUrl: string, schema: string): Promise<Record<string, string[]>> => {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  try {
    const dump: Record<string, string[]> = {};
    for (const table of ["delegation_v1", "delegation_v2", "delegation_change", "vault_v1"]) {
      const { rows } = await client.query(`select t::text as row from ${schema}.${table} t order by t`);
      dump[table] = rows.map(({ row }) => row);
    }
    return dump;
  } finally {
    await client.end();
  }
};

/** Reads the hash of the newest indexed block. */
export const readIndexedHash = async (client: Queries, schema: string, chainId: number): Promise<Hex | null> => {
  const { rows } = await client.query(`select hash from ${schema}.indexed_block where chain_id = $1`, [chainId]);
  return rows[0]?.hash ?? null;
};

const DAILY_FROM_LOG = `
  select (block_timestamp at time zone 'UTC')::date::text as day, chain_id, registry, type, token_standard,
    count(*) filter (where active and not was_active) as made,
    count(*) filter (where active and was_active) as changed,
    count(*) filter (where not active) as revoked
  from (
    select *, coalesce(lag(active) over (
      partition by chain_id, registry, type, token_standard, vault, delegate, contract, token_id, rights
      order by block_number, log_index), false) as was_active
    from analytics.changes
  ) change
  group by 1, 2, 3, 4, 5`;

const DAILY =
  "select day::text, chain_id, registry, type, token_standard, made, changed, revoked from analytics.daily_activity";

/** Contracts without active delegations are not in CONTRACTS_FROM_ACTIVE. */
const CONTRACTS = "select chain_id, contract, delegations from analytics.contracts where delegations <> 0";
const CONTRACTS_FROM_ACTIVE = `
  select chain_id, contract, count(*) as delegations from analytics.delegations where contract is not null group by 1, 2`;

/**
 * Compares the daily and per-contract summaries with the change log and the active delegations. One statement each, so
 * that both sides share a snapshot.
 */
export const expectCorrectSums = async (client: Queries): Promise<void> => {
  for (const [summed, counted] of [
    [DAILY, DAILY_FROM_LOG],
    [CONTRACTS, CONTRACTS_FROM_ACTIVE],
  ]) {
    const { rows } = await client.query(
      `with summed as (${summed}), counted as (${counted})
       select 'summed' as only, * from (table summed except all table counted) a
       union all
       select 'counted', * from (table counted except all table summed) b`,
    );
    assert.deepEqual(rows, []);
  }
};

// The state digest, as docs/digest.md defines it.

export const REGISTRIES = ["v1", "v2"] as const;

type Registry = (typeof REGISTRIES)[number];

export const computeDigest = (lines: readonly string[]): string => {
  const total = lines.reduce((sum, line) => sum + BigInt(`0x${createHash("sha256").update(line).digest("hex")}`), 0n);
  return `0x${(total % 2n ** 256n).toString(16).padStart(64, "0")}`;
};

/** Formats a delegation as docs/digest.md defines it. */
const formatDigestLine = (chainId: number, registry: Registry, delegation: DelegationV1 | DelegationV2): string => {
  const { type, vault, delegate, contract, tokenId } = delegation;
  const { rights, amount } = "rights" in delegation ? delegation : { rights: zeroHash, amount: 0n };
  return `${chainId} ${registry} ${type} ${vault} ${delegate} ${contract} ${tokenId} ${rights} ${amount}`.replaceAll(
    /0x[0-9a-fA-F]+/g,
    (hex) => hex.toLowerCase(),
  );
};

export const computeStateDigest = (chainId: number, registry: Registry, state: State): string =>
  computeDigest(state[registry].map((delegation) => formatDigestLine(chainId, registry, delegation)));

/** Reads the digest in SQL at a block, by default the newest. */
export const readDigest = async (
  database: Queries,
  chainId: number,
  registry: string,
  block: bigint | null = null,
): Promise<string> => {
  const { rows } = await database.query("select analytics.state_digest($1, $2, $3) as digest", [
    chainId,
    registry,
    block,
  ]);
  return String(rows[0]?.digest);
};
