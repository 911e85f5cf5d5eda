import type { Database } from "../database.ts";
import { Problem, type ProblemName } from "../problem.ts";
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
  /** The first block that it indexes. */
  startBlock: string;
  /** The addresses of the registries that it holds. */
  v1: string | null;
  v2: string | null;
  /** null while nothing can be said of the chain. */
  freshness: Freshness | null;
};

export const CHAINS = {
  name: "chains of shards",
  text: `
    select distinct on (index.shard, chain.chain_id)
      index.shard, chain.chain_id, shard.schema is not null,
      chain.newest_number, chain.newest_timestamp, chain.reached_number, chain.v1, chain.v2,
      -- an indexer of an older version has not made this column
      coalesce((to_jsonb(chain) ->> 'start_number')::bigint, 0)
    from indexer.index
    join indexer.chain on chain.schema = index.schema
    left join indexer.shard on shard.name = index.shard and shard.schema = index.schema
    where index.shard = any ($1)
    order by index.shard, chain.chain_id, shard.schema is null, index.started_at desc`,
};

export const blocksOf = (shard: string) => ({
  name: `${shard} blocks`,
  text: `select block.chain_id, ${freshnessColumns("block")} from "${shard}".indexed_block block`,
});

/** The chains of some shards. A shard that was never started has none; of one that cannot be read nothing is fresh. */
export const readShards = async (database: Database, shards: readonly string[]): Promise<ShardChain[]> => {
  const chains = await rowsUnless(isProblem("not-indexed"), database.query({ ...CHAINS, values: [shards] }));
  const blocks = new Map<string, Freshness | null>();
  for (const shard of new Set(chains.map(([shard]) => String(shard)))) {
    // Whatever is wrong with one shard is no matter of the others.
    const isItsOwn = (error: unknown) => !isProblem("database-unavailable")(error);
    const rows = await rowsUnless(isItsOwn, database.query({ ...blocksOf(shard), values: [] }));
    for (const [chainId, ...block] of rows) blocks.set(`${shard} ${chainId}`, readFreshness(block));
  }
  return chains.map(([shard, chainId, isServed, newest, newestTimestamp, reached, v1, v2, start]) => ({
    shard: String(shard),
    chainId: Number(chainId),
    isServed: isServed === true,
    newestBlock: String(newest),
    newestBlockTimestamp: String(newestTimestamp),
    reachedBlock: String(reached),
    startBlock: String(start),
    v1: v1 === null ? null : String(v1),
    v2: v2 === null ? null : String(v2),
    // An index that came to be served between the two statements is known by the next look.
    freshness: isServed === true ? (blocks.get(`${shard} ${chainId}`) ?? null) : null,
  }));
};

const isProblem = (name: ProblemName) => (error: unknown) => error instanceof Problem && error.problem === name;

/** The rows of a statement; none where it failed in such a way. */
const rowsUnless = async (isSuch: (error: unknown) => boolean, rows: Promise<readonly (readonly unknown[])[]>) => {
  try {
    return await rows;
  } catch (error) {
    if (isSuch(error)) return [];
    throw error;
  }
};
