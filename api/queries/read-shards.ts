import { and, desc, eq, isNotNull, isNull, sql } from "drizzle-orm";
import { compile, type Database, preparedFor } from "../database.ts";
import { Problem, type ProblemName } from "../problem.ts";
import { chain, index, indexTables, shard } from "../tables.ts";
import { named } from "./columns.ts";
import { type Freshness, type FreshnessColumns, freshnessOf, readFreshness } from "./freshness.ts";

/** What is known of one chain in one shard. */
export type ShardChain = {
  shard: string;
  chainId: number;
  /** Whether the shard's views show an index with this chain. */
  isServed: boolean;
  /** How far the index is that is served, or else the one that is being built. */
  newestBlock: number;
  newestBlockTimestamp: number;
  reachedBlock: number;
  /** The first block that it indexes. */
  startBlock: number;
  /** The addresses of the registries that it holds. */
  v1: string | null;
  v2: string | null;
  /** null while nothing can be said of the chain. */
  freshness: Freshness | null;
};

export const chainsOfShards = preparedFor(({ db }) =>
  db
    .selectDistinctOn([index.shard, chain.chainId], {
      shard: index.shard,
      chainId: chain.chainId,
      isServed: sql<boolean>`${isNotNull(shard.schema)}`,
      newestBlock: chain.newestNumber,
      newestBlockTimestamp: chain.newestTimestamp,
      reachedBlock: chain.reachedNumber,
      // An indexer of an older version has not made this column.
      startBlock: sql`coalesce((to_jsonb(${sql.identifier("chain")}) ->> 'start_number')::bigint, 0)`.mapWith(Number),
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
  const columns = { ...named({ chainId: indexedBlock.chainId }), ...freshnessOf(indexedBlock) };
  return compile<FreshnessColumns & { chainId: string }>(`${shard} blocks`, db.select(columns).from(indexedBlock));
};

const blocksOf = preparedFor(blocksStatement);

/** The chains of some shards. A shard that was never started has none; of one that cannot be read nothing is fresh. */
export const readShards = async (database: Database, shards: readonly string[]): Promise<ShardChain[]> => {
  const chains = await rowsUnless(
    isProblem("not-indexed"),
    database.run(() => chainsOfShards(database).execute({ shards })),
  );
  const blocks = new Map<string, Freshness | null>();
  for (const shard of new Set(chains.map(({ shard }) => shard))) {
    // Whatever is wrong with one shard is no matter of the others.
    const isItsOwn = (error: unknown) => !isProblem("database-unavailable")(error);
    const rows = await rowsUnless(isItsOwn, database.read("checks", blocksOf(database, shard), {}));
    for (const row of rows) blocks.set(`${shard} ${row.chainId}`, readFreshness(row));
  }
  return chains.map((chain) => ({
    ...chain,
    // An index that came to be served between the two statements is known by the next look.
    freshness: chain.isServed ? (blocks.get(`${chain.shard} ${chain.chainId}`) ?? null) : null,
  }));
};

const isProblem = (name: ProblemName) => (error: unknown) => error instanceof Problem && error.problem === name;

/** The rows of a statement; none where it failed in such a way. */
const rowsUnless = async <Row>(isSuch: (error: unknown) => boolean, rows: Promise<Row[]>): Promise<Row[]> => {
  try {
    return await rows;
  } catch (error) {
    if (isSuch(error)) return [];
    throw error;
  }
};
