import { eq, exists, type SQL, type SQLWrapper, sql } from "drizzle-orm";
import type { Address } from "viem";
import type { RegistryVersion } from "../../../registry/networks.ts";
import type { Database } from "../../database.ts";
import { indexTables } from "../../tables.ts";
import { named } from "../columns.ts";
import { type Freshness, type FreshnessColumns, freshnessOf, readFreshness } from "../freshness.ts";

/** A delegation as it is stored, and the event that tells of it. Zero stands for "not limited"; numbers are digits. */
export type ExplorerRow = {
  registry: RegistryVersion;
  type: string;
  vault: Address;
  delegate: Address;
  contract: Address;
  tokenId: string;
  rights: string;
  amount: string;
  blockNumber: string;
  logIndex: number;
  blockTimestamp: string;
  transactionHash: string;
};

/** A place in a list by which its next page is found. */
export type Place = { blockNumber: string; logIndex: string | number; ordinal: string | number };

/** After the newest event. */
export const NEWEST: Place = { blockNumber: "9223372036854775807", logIndex: 0, ordinal: 0 };

type Columns = Readonly<Record<string, SQLWrapper>>;

/** The columns of a delegation, by the names that they have in Postgres. */
export const delegationColumns = (delegation: Record<keyof ExplorerRow, SQLWrapper>) =>
  named({
    registry: delegation.registry,
    type: delegation.type,
    vault: delegation.vault,
    delegate: delegation.delegate,
    contract: delegation.contract,
    token_id: delegation.tokenId,
    rights: delegation.rights,
    amount: delegation.amount,
    block_number: delegation.blockNumber,
    log_index: delegation.logIndex,
    block_timestamp: delegation.blockTimestamp,
    transaction_hash: delegation.transactionHash,
  });

/** What is told of a row of `found`. */
export const FOUND: Record<keyof ExplorerRow, SQL> = {
  registry: sql`found.registry`,
  type: sql`found.type`,
  vault: sql`found.vault`,
  delegate: sql`found.delegate`,
  contract: sql`found.contract`,
  tokenId: sql`found.token_id`,
  rights: sql`found.rights`,
  amount: sql`found.amount`,
  blockNumber: sql`found.block_number`,
  logIndex: sql`found.log_index`,
  blockTimestamp: sql`found.block_timestamp`,
  transactionHash: sql`found.transaction_hash`,
};

/**
 * Rows, each with the block that they are true at; one row without anything else where there are none.
 * The tables in the order in which a reorg locks them: the block's comes last.
 * @param question - the `from` that `q` with its chain_id comes from
 * @param found - a query, in which `q` is known
 * @param columns - what is told of each row
 */
export const withBlock = (
  { db }: Database,
  schema: string,
  { question, found, columns, order }: { question: SQL; found: SQLWrapper; columns: Columns; order: SQL },
) => {
  const { indexedBlock } = indexTables(schema);
  return db
    .select({ ...freshnessOf(indexedBlock), ...named(columns) })
    .from(question)
    .leftJoinLateral(sql`(${found}) found`, sql`true`)
    .leftJoin(indexedBlock, eq(indexedBlock.chainId, sql`q.chain_id`))
    .orderBy(order);
};

/** While the index catches up no chain has a block and nothing is looked for: the indexes for lists are gone then. */
export const whileServed = ({ db }: Database, schema: string): SQL =>
  exists(db.select({ one: sql`1` }).from(indexTables(schema).indexedBlock));

export type Found<Row> = { freshness: Freshness | null; rows: Row[] };

/** Reads what withBlock() gives. */
export const readFound = <Row extends ExplorerRow>(rows: readonly (FreshnessColumns & Row)[]): Found<Row> => ({
  freshness: readFreshness(rows[0]),
  rows: rows.filter(({ registry }) => registry !== null),
});
