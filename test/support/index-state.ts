import pg from "pg";
import type { Hex } from "viem";
import type { DelegationKeyV1, DelegationKeyV2 } from "../../registry/delegation.ts";

/** A connection, or as many as it takes. */
export type Queries = pg.Client | pg.Pool;

/** The indexes of the shard "registry" that there are, whether its views show them or not. */
export const findIndexes = async (database: Queries): Promise<string[]> => {
  const { rows } = await database.query("select nspname from pg_namespace where nspname ~ '^registry_[0-9a-f]{10}$'");
  return rows.map(({ nspname }) => nspname);
};

export type DelegationV1 = DelegationKeyV1;
export type DelegationV2 = DelegationKeyV2 & { amount: bigint };

/** What is delegated on one chain at one block. */
export type State = { v1: DelegationV1[]; v2: DelegationV2[] };

/** A row of the change log, with the columns that the state is rebuilt from. */
type Change = {
  registry: "v1" | "v2";
  block_number: bigint;
  active: boolean;
  amount: bigint;
} & DelegationKeyV2;

export type Snapshot = {
  block: { number: bigint; hash: Hex };
  state: State;
  log: Change[];
};

const bigintColumns = (row: Record<string, unknown>) => {
  const { token_id, ...rest } = row;
  return {
    ...rest,
    tokenId: BigInt(String(token_id)),
    ...("amount" in row && { amount: BigInt(String(row.amount)) }),
    ...("block_number" in row && { block_number: BigInt(String(row.block_number)) }),
  };
};

/** All that an index says of a chain, in one transaction: null while it says nothing. */
export const readSnapshot = async (databaseUrl: string, schema: string, chainId: number): Promise<Snapshot | null> => {
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
      state: { v1: v1.map(bigintColumns) as DelegationV1[], v2: v2.map(bigintColumns) as DelegationV2[] },
      log: log.map(bigintColumns) as Change[],
    };
  } finally {
    await client.end();
  }
};

/** The state at a past block: the latest change of each delegation up to it. */
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

/** Whole tables as text, for comparing two indexes row by row. */
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

/** The newest block that an index says it includes, by its hash. */
export const readIndexedHash = async (client: Queries, schema: string, chainId: number): Promise<Hex | null> => {
  const { rows } = await client.query(`select hash from ${schema}.indexed_block where chain_id = $1`, [chainId]);
  return rows[0]?.hash ?? null;
};
