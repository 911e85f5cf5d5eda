import { exists, type SQL, sql } from "drizzle-orm";
import type { Database } from "../database.ts";
import { type IndexTables, indexTables } from "../tables.ts";
import { named } from "./columns.ts";

/** The block that an answer is true at, read in the same statement as the answer. Digits, as Postgres gives them. */
export type Freshness = { indexedBlock: string; indexedBlockTimestamp: string; finalizedBlock: string };

/** The same as columns of a row: null while nothing can be said of the chain. */
export type FreshnessColumns = { [Name in keyof Freshness]: string | null };

export const freshnessOf = ({ number, timestamp, finalizedNumber }: IndexTables["indexedBlock"]) =>
  named({ indexedBlock: number, indexedBlockTimestamp: timestamp, finalizedBlock: finalizedNumber });

/** While the index catches up no chain has a block and nothing is looked for: the indexes for lists are gone then. */
export const whileServed = ({ db }: Database, schema: string): SQL =>
  exists(db.select({ one: sql`1` }).from(indexTables(schema).indexedBlock));

export const readFreshness = (row: FreshnessColumns | undefined): Freshness | null =>
  row && row.indexedBlock !== null && row.indexedBlockTimestamp !== null && row.finalizedBlock !== null
    ? {
        indexedBlock: row.indexedBlock,
        indexedBlockTimestamp: row.indexedBlockTimestamp,
        finalizedBlock: row.finalizedBlock,
      }
    : null;
