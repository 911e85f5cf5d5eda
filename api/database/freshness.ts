import { exists, type SQL, sql } from "drizzle-orm";
import type { AskedBlock } from "../contract/parameters.ts";
import { aliasColumns } from "./columns.ts";
import type { Database } from "./database.ts";
import { type IndexTables, indexTables } from "./tables.ts";

/** The block of an answer, read in the same statement as the answer. Digits, as Postgres returns them. */
export type Freshness = {
  indexedBlock: string;
  indexedBlockTimestamp: string;
  finalizedBlock: string;
  /** Only of questions about several networks. */
  finalizedBlockTimestamp?: string;
};

/** The same as columns of a row; null while the index cannot answer for the chain. */
export type FreshnessColumns = { [Name in keyof Freshness]: string | null };

/** True if no reorg can change the state that is asked for. The last block up to a time may be one of several at that time. */
export const isFinal = (freshness: Freshness, { block, timestamp }: AskedBlock): boolean => {
  const { finalizedBlock, finalizedBlockTimestamp } = freshness;
  if (block !== undefined) return BigInt(block) <= BigInt(finalizedBlock);
  if (timestamp === undefined || finalizedBlockTimestamp === undefined) return false;
  return BigInt(timestamp) < BigInt(finalizedBlockTimestamp);
};

export const selectFreshness = ({ number, timestamp, finalizedNumber }: IndexTables["indexedBlock"]) =>
  aliasColumns({ indexedBlock: number, indexedBlockTimestamp: timestamp, finalizedBlock: finalizedNumber });

/** False while the index catches up: no chain has a block then, and a list must not scan, as its indexes are dropped. */
export const hasIndexedBlock = ({ db }: Database, schema: string): SQL =>
  exists(db.select({ one: sql`1` }).from(indexTables(schema).indexedBlock));

export const readFreshness = (row: FreshnessColumns | undefined): Freshness | null =>
  row && row.indexedBlock !== null && row.indexedBlockTimestamp !== null && row.finalizedBlock !== null
    ? {
        indexedBlock: row.indexedBlock,
        indexedBlockTimestamp: row.indexedBlockTimestamp,
        finalizedBlock: row.finalizedBlock,
      }
    : null;
