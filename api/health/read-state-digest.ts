import { eq, sql } from "drizzle-orm";
import type { RegistryVersion } from "../../registry/networks.ts";
import { selectActiveAt } from "../../registry/state-at.ts";
import { DIGEST_WORDS, sumDigests } from "../../registry/state-digest.ts";
import type { Database } from "../database/database.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import { compileStatement, type Statement } from "../database/statement.ts";
import { shard } from "../database/tables.ts";

export type Digests = Readonly<Record<RegistryVersion, string>>;

const value = sql.placeholder;

/** Sums the digests of a range of vaults at a block from the change log, which never changes up to a final block. */
const partStatement = (shard: string): Statement<{ registry: RegistryVersion; sums: readonly string[] }> => ({
  name: `${shard} digest part`,
  text: sumDigests(
    selectActiveAt(
      `"${shard}".delegation_change`,
      "chain_id = $1 and block_number <= $2 and vault >= $3 and vault < $4",
    ),
    "registry",
  ),
  params: [value("chainId"), value("block"), value("low"), value("high")],
});

/** All first bytes of vaults, in order. */
const PREFIXES = Array.from({ length: 256 }, (_, byte) => `0x${byte.toString(16).padStart(2, "0")}`);
const AFTER_ALL = "0xg";

/**
 * Computes the digests of a chain's state at a final block with many short statements, each for some of the vaults: a
 * long one would block a reorg, and every statement that waits behind it.
 * @param rest - called after each statement
 */
export const readDigests = async (
  database: Database,
  { shard, chainId, block }: { shard: string; chainId: number; block: number },
  rest: () => Promise<void>,
): Promise<Digests> => {
  const totals = { v1: 0n, v2: 0n };
  for (const [index, prefix] of PREFIXES.entries()) {
    const values = { chainId, block, low: prefix, high: PREFIXES[index + 1] ?? AFTER_ALL };
    const rows = await database.read("background", partStatement(shard), values);
    for (const { registry, sums } of rows) totals[registry] += addWords(sums);
    await rest();
  }
  return { v1: writeDigest(totals.v1), v2: writeDigest(totals.v2) };
};

const addWords = (sums: readonly string[]): bigint =>
  sums.reduce((total, sum, word) => total + (BigInt(sum) << BigInt(32 * (DIGEST_WORDS - 1 - word))), 0n);

const writeDigest = (total: bigint): string => `0x${BigInt.asUintN(256, total).toString(16).padStart(64, "0")}`;

const servedSchemas = memoizeByDatabase(({ db }) =>
  compileStatement<{ name: string; schema: string }>(
    "schemas of shards",
    db
      .select({ name: shard.name, schema: shard.schema })
      .from(shard)
      .where(eq(shard.name, sql`any (${value("shards")})`)),
  ),
);

/** Reads the schema of the index that each shard serves. */
export const readServedSchemas = async (
  database: Database,
  shards: readonly string[],
): Promise<Map<string, string>> => {
  const rows = await database.read("background", servedSchemas(database), { shards });
  return new Map(rows.map(({ name, schema }) => [name, schema]));
};
