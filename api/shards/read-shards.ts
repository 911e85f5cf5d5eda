import { and, desc, eq, isNotNull, isNull, sql } from "drizzle-orm";
import { aliasColumns } from "../database/columns.ts";
import type { Database } from "../database/database.ts";
import { type Freshness, type FreshnessColumns, readFreshness, selectFreshness } from "../database/freshness.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import { compileStatement } from "../database/statement.ts";
import { chain, index, indexTables, shard } from "../database/tables.ts";
import { Problem, type ProblemName } from "../problem.ts";

export type Verification = {
  /** The block up to which all changed wallets agree; null while the index is not proven. */
  block: number | null;
  /** Comparisons of a wallet so far. */
  wallets: number;
  at: Date | null;
  /** A difference that has not been repaired. */
  difference: string | null;
};

/** State of one chain in one shard. */
export type ShardChain = {
  shard: string;
  chainId: number;
  /** True if the shard's views show an index with this chain. */
  isServed: boolean;
  /** Progress of the served index, or without one of the index that is being built. */
  newestBlock: number;
  newestBlockTimestamp: number;
  /** When the indexer last saw that block as the chain's newest. */
  newestBlockSeenAt: Date;
  reachedBlock: number;
  /** First block that the index covers. */
  startBlock: number;
  /** Restarts of Ponder because the index of the chain did not move. */
  restarts: number;
  /** The comparison of the index with the registries' own state. */
  verification: Verification;
  /** Addresses of the registries in the index. */
  v1: string | null;
  v2: string | null;
  /** null while the index cannot answer for the chain. */
  freshness: Freshness | null;
};

/** Reads a column that an indexer of an older version has not created. */
const newColumn = (name: string) =>
  sql<string | null>`to_jsonb(${sql.identifier("chain")}) ->> ${sql.raw(`'${name}'`)}`;
const readCount = (name: string) => sql`coalesce((${newColumn(name)})::bigint, 0)`.mapWith(Number);

export const chainsOfShards = memoizeByDatabase(({ db }) =>
  db
    .selectDistinctOn([index.shard, chain.chainId], {
      shard: index.shard,
      chainId: chain.chainId,
      isServed: sql<boolean>`${isNotNull(shard.schema)}`,
      newestBlock: chain.newestNumber,
      newestBlockTimestamp: chain.newestTimestamp,
      newestBlockSeenAt: chain.seenAt,
      reachedBlock: chain.reachedNumber,
      startBlock: readCount("start_number"),
      restarts: readCount("restarts"),
      verification: {
        block: sql<number | null>`(${newColumn("verified_number")})::bigint`.mapWith(Number),
        wallets: readCount("verified_wallets"),
        at: sql<Date | null>`(${newColumn("verified_at")})::timestamptz`.mapWith(chain.seenAt),
        difference: newColumn("difference"),
      },
      v1: chain.v1,
      v2: chain.v2,
    })
    .from(index)
    .innerJoin(chain, eq(chain.schema, index.schema))
    .leftJoin(shard, and(eq(shard.name, index.shard), eq(shard.schema, index.schema)))
    .where(eq(index.shard, sql`any (${sql.placeholder("shards")})`))
    .orderBy(index.shard, chain.chainId, isNull(shard.schema), desc(index.startedAt))
    .prepare("chains of shards"),
);

export const blocksStatement = ({ db }: Database, shard: string) => {
  const { indexedBlock } = indexTables(shard);
  const columns = { ...aliasColumns({ chainId: indexedBlock.chainId }), ...selectFreshness(indexedBlock) };
  const query = db.select(columns).from(indexedBlock);
  return compileStatement<FreshnessColumns & { chainId: string }>(`${shard} blocks`, query);
};

const blocksOfShard = memoizeByDatabase(blocksStatement);

/** Reads the chains of shards. A shard that never started has none; in a shard that cannot be read, none is fresh. */
export const readShards = async (database: Database, shards: readonly string[]): Promise<ShardChain[]> => {
  const chains = await ignoreErrors(
    database.run(() => chainsOfShards(database).execute({ shards })),
    isProblem("not-indexed"),
  );
  const blocks = new Map<string, Freshness | null>();
  for (const shard of new Set(chains.map(({ shard }) => shard))) {
    // An unreadable shard never affects the others.
    const concernsShard = (error: unknown) => !isProblem("database-unavailable")(error);
    const rows = await ignoreErrors(database.read("checks", blocksOfShard(database, shard), {}), concernsShard);
    for (const row of rows) blocks.set(`${shard} ${row.chainId}`, readFreshness(row));
  }
  return chains.map((chain) => ({
    ...chain,
    // An index that came to be served between the two statements gets its block at the next refresh.
    freshness: chain.isServed ? (blocks.get(`${chain.shard} ${chain.chainId}`) ?? null) : null,
  }));
};

const isProblem = (name: ProblemName) => (error: unknown) => error instanceof Problem && error.problem === name;

/** Returns no rows if the statement fails with an error that may be ignored. */
const ignoreErrors = async <Row>(rows: Promise<Row[]>, canIgnore: (error: unknown) => boolean): Promise<Row[]> => {
  try {
    return await rows;
  } catch (error) {
    if (canIgnore(error)) return [];
    throw error;
  }
};
