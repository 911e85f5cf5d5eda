import type { AskedBlock } from "../contract/parameters.ts";
import { aliasColumns } from "./columns.ts";
import type { IndexTables } from "./tables.ts";

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

/** True if no reorg can change the state at a block or time. A later block may have the same time as the last one up to it. */
export const isFinal = (freshness: Freshness, { block, timestamp }: AskedBlock): boolean => {
  const { finalizedBlock, finalizedBlockTimestamp } = freshness;
  if (block !== undefined) return BigInt(block) <= BigInt(finalizedBlock);
  if (timestamp === undefined || finalizedBlockTimestamp === undefined) return false;
  return BigInt(timestamp) < BigInt(finalizedBlockTimestamp);
};

export const selectFreshness = ({ number, timestamp, finalizedNumber }: IndexTables["indexedBlock"]) =>
  aliasColumns({ indexedBlock: number, indexedBlockTimestamp: timestamp, finalizedBlock: finalizedNumber });

/**
 * An SQL condition that is false while the index catches up: no chain has a block then, and the tables have no indexes to
 * be read by. It comes after the tables in a statement: they are locked in the order in which a reorg locks them.
 */
export const hasIndexedBlock = (schema: string): string => `exists (select from "${schema}".indexed_block)`;

/** The block at which an answer holds, in the JSON of several networks. */
export type AnsweredBlock = { number: number | null; timestamp: number | null; final: boolean };

/** Shows a past block, by default the newest one. The index does not know when a past block was made. */
export const showAnsweredBlock = (freshness: Freshness, block = freshness.indexedBlock): AnsweredBlock => ({
  number: Number(block),
  timestamp: block === freshness.indexedBlock ? Number(freshness.indexedBlockTimestamp) : null,
  final: isFinal(freshness, { block }),
});

export const readFreshness = (row: FreshnessColumns | undefined): Freshness | null =>
  row && row.indexedBlock !== null && row.indexedBlockTimestamp !== null && row.finalizedBlock !== null
    ? {
        indexedBlock: row.indexedBlock,
        indexedBlockTimestamp: row.indexedBlockTimestamp,
        finalizedBlock: row.finalizedBlock,
      }
    : null;
