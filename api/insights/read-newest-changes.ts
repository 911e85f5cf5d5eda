import { desc, eq, sql } from "drizzle-orm";
import { aliasColumns } from "../database/columns.ts";
import type { Database } from "../database/database.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import { compileStatement } from "../database/statement.ts";
import { indexTables } from "../database/tables.ts";
import type { ShardChain } from "../shards/read-shards.ts";
import type { ChangeRow } from "../wallets/wallet-json.ts";

const NEWEST_CHANGES = 10;

export type NewestChange = Omit<ChangeRow, "number" | "isListed">;

/** Selects the newest changes of a chain, by the primary key of the log. */
export const newestChangesStatement = (database: Database, schema: string) => {
  const { delegationChange: change } = indexTables(schema);
  const { registry, type, vault, delegate, contract, tokenId, rights, amount, active, wasActive } = change;
  const { blockNumber, logIndex, ordinal, blockTimestamp, transactionHash, event } = change;
  const delegation = { registry, type, vault, delegate, contract, tokenId, rights, amount, active, wasActive };
  const query = database.db
    .select(aliasColumns({ ...delegation, blockNumber, logIndex, ordinal, blockTimestamp, transactionHash, event }))
    .from(change)
    .where(eq(change.chainId, sql.placeholder("chainId")))
    .orderBy(desc(blockNumber), desc(logIndex), desc(ordinal))
    .limit(NEWEST_CHANGES);
  return compileStatement<Omit<NewestChange, "chainId">>(`${schema} newest changes`, query);
};

const findStatement = memoizeByDatabase(newestChangesStatement);

/**
 * Reads the newest changes over all of these chains, newest first. Not from the view of all shards: with several
 * shards, Postgres would sort the whole log of a chain.
 */
export const readNewestChanges = async (
  database: Database,
  chains: readonly Pick<ShardChain, "chainId" | "shard">[],
): Promise<NewestChange[]> => {
  const changes: NewestChange[] = [];
  for (const { chainId, shard } of chains) {
    const rows = await database.read("background", findStatement(database, shard), { chainId });
    changes.push(...rows.map((row) => ({ ...row, chainId })));
  }
  return changes.toSorted((a, b) => Number(b.blockTimestamp) - Number(a.blockTimestamp)).slice(0, NEWEST_CHANGES);
};
