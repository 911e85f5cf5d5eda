import type { Database } from "../database.ts";
import { Problem } from "../problem.ts";
import { type Freshness, freshnessColumns, readFreshness } from "./freshness.ts";

/** What is known of one chain in one shard. Numbers are digits. */
export type ShardChain = {
  shard: string;
  chainId: number;
  /** Whether the shard's views show an index with this chain. */
  isServed: boolean;
  /** How far the index is that is served, or else the one that is being built. */
  newestBlock: string;
  newestBlockTimestamp: string;
  reachedBlock: string;
  /** null while nothing can be said of the chain. */
  freshness: Freshness | null;
};

const CHAINS = {
  name: "chains of shards",
  text: `
    select distinct on (index.shard, chain.chain_id)
      index.shard, chain.chain_id, shard.schema is not null,
      chain.newest_number, chain.newest_timestamp, chain.reached_number
    from indexer.index
    join indexer.chain on chain.schema = index.schema
    left join indexer.shard on shard.name = index.shard and shard.schema = index.schema
    where index.shard = any ($1)
    order by index.shard, chain.chain_id, shard.schema is null, index.started_at desc`,
};

const blocksOf = (shard: string) => ({
  name: `${shard} blocks`,
  text: `select block.chain_id, ${freshnessColumns("block")} from "${shard}".indexed_block block`,
});

/** The chains of some shards. A shard that was never started has none. */
export const readShards = async (database: Database, shards: readonly string[]): Promise<ShardChain[]> => {
  const chains = await orNone(database.query({ ...CHAINS, values: [shards] }));
  const blocks = new Map<string, Freshness | null>();
  for (const shard of new Set(chains.map(([shard]) => String(shard)))) {
    const rows = await orNone(database.query({ ...blocksOf(shard), values: [] }));
    for (const [chainId, ...block] of rows) blocks.set(`${shard} ${chainId}`, readFreshness(block));
  }
  return chains.map(([shard, chainId, isServed, newest, newestTimestamp, reached]) => ({
    shard: String(shard),
    chainId: Number(chainId),
    isServed: isServed === true,
    newestBlock: String(newest),
    newestBlockTimestamp: String(newestTimestamp),
    reachedBlock: String(reached),
    freshness: blocks.get(`${shard} ${chainId}`) ?? null,
  }));
};

const orNone = async (rows: Promise<readonly (readonly unknown[])[]>) => {
  try {
    return await rows;
  } catch (error) {
    if (error instanceof Problem && error.problem === "not-indexed") return [];
    throw error;
  }
};
