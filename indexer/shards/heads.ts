import type { ChainPlan } from "../plan.ts";
import { checkpointBlock } from "./checkpoint.ts";
import { findTable, isPonderReady } from "./ponder-tables.ts";
import type { Queryable } from "./queryable.ts";

/** The newest block of a chain. */
export type Head = {
  number: bigint;
  timestamp: bigint;
  /** Start of the request for it, by `performance.now()`. */
  fetchedAt: number;
};

/** The newest block of each chain, by chain id. */
export type Heads = ReadonlyMap<number, Head>;

/**
 * True if Ponder has finished the backfill of an index, and its newest blocks are at least as new as the heads and as
 * the blocks of the served index.
 */
export const hasCaughtUp = async (
  client: Queryable,
  schema: string,
  heads: Heads,
  servedSchema: string | null = null,
): Promise<boolean> => {
  if (!(await isPonderReady(client, schema))) return false;

  const fresh = await findTable(client, schema, "indexed_block");
  const old = servedSchema && (await findTable(client, servedSchema, "indexed_block"));
  const { rows } = await client.query(
    `select count(*)::int as chains
     from unnest($1::bigint[], $2::bigint[]) as head (chain_id, number)
     join ${fresh} fresh on fresh.chain_id = head.chain_id and fresh.number >= head.number
     ${old ? `left join ${old} old on old.chain_id = head.chain_id where fresh.number >= coalesce(old.number, 0)` : ""}`,
    [[...heads.keys()], [...heads.values()].map(({ number }) => number)],
  );
  return rows[0]?.chains === heads.size;
};

/** Stores the registries of an index, its progress on each chain whose head is known, and when that head was seen. */
export const saveHeads = async (
  client: Queryable,
  schema: string,
  chains: readonly ChainPlan[],
  heads: Heads,
): Promise<void> => {
  const checkpoints = await findTable(client, schema, "_ponder_checkpoint");
  const saved = chains.flatMap(({ chainId, v1, v2 }) => {
    const head = heads.get(chainId);
    if (!head) return [];
    const start = Math.min(v1?.startBlock ?? Infinity, v2?.startBlock ?? Infinity);
    return { chainId, ...head, start, v1: v1?.address.toLowerCase(), v2: v2?.address.toLowerCase() };
  });
  await client.query(
    `insert into indexer.chain (schema, chain_id, newest_number, newest_timestamp, reached_number, v1, v2, start_number, seen_at)
     select $1, head.chain_id, head.number, head.timestamp,
       coalesce(${checkpoints ? checkpointBlock("latest_checkpoint") : "null"}, 0), head.v1, head.v2, head.start,
       clock_timestamp() - head.age_ms * interval '1 ms'
     from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::float8[])
       as head (chain_id, number, timestamp, v1, v2, start, age_ms)
     ${checkpoints ? `left join ${checkpoints} checkpoint on checkpoint.chain_id = head.chain_id` : ""}
     on conflict (schema, chain_id) do update set newest_number = excluded.newest_number,
       newest_timestamp = excluded.newest_timestamp, reached_number = excluded.reached_number,
       start_number = excluded.start_number, seen_at = excluded.seen_at`,
    [
      schema,
      saved.map(({ chainId }) => chainId),
      saved.map(({ number }) => number),
      saved.map(({ timestamp }) => timestamp),
      saved.map(({ v1 }) => v1),
      saved.map(({ v2 }) => v2),
      saved.map(({ start }) => start),
      saved.map(({ fetchedAt }) => performance.now() - fetchedAt),
    ],
  );
};
