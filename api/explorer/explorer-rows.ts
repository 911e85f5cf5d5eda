import { eq, type SQL, type SQLWrapper, sql } from "drizzle-orm";
import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import { aliasColumns } from "../database/columns.ts";
import type { Database } from "../database/database.ts";
import { type Freshness, type FreshnessColumns, readFreshness, selectFreshness } from "../database/freshness.ts";
import { indexTables } from "../database/tables.ts";

/** A delegation as stored, and its event. Zero means "not limited"; numbers are digits. */
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

/** A row's position in a list, for keyset pagination. */
export type ExplorerPosition = { blockNumber: string; logIndex: string | number; ordinal: string | number };

/** Position after the newest event, where a list starts. */
export const NEWEST: ExplorerPosition = { blockNumber: "9223372036854775807", logIndex: 0, ordinal: 0 };

type Columns = Readonly<Record<string, SQLWrapper>>;

/** Fields of a row and their columns in the subquery `found`. */
const COLUMNS: Readonly<Record<keyof ExplorerRow, string>> = {
  registry: "registry",
  type: "type",
  vault: "vault",
  delegate: "delegate",
  contract: "contract",
  tokenId: "token_id",
  rights: "rights",
  amount: "amount",
  blockNumber: "block_number",
  logIndex: "log_index",
  blockTimestamp: "block_timestamp",
  transactionHash: "transaction_hash",
};

/** Selects a table's columns under their names in `found`. */
export const selectDelegation = (delegation: Record<keyof ExplorerRow, SQLWrapper>) =>
  aliasColumns(
    Object.fromEntries(
      Object.entries(COLUMNS).map(([name, column]) => [column, delegation[name as keyof ExplorerRow]]),
    ),
  );

/** The columns of `found` under their names in a row. */
export const FOUND: Columns = Object.fromEntries(
  Object.entries(COLUMNS).map(([name, column]) => [name, sql`found.${sql.identifier(column)}`]),
);

/** The `from` of a query about one chain. */
export const ONE_CHAIN = sql`(values (${sql.placeholder("chainId")}::bigint)) as q (chain_id)`;

/**
 * Adds the block to each row; without rows, returns one with the block only.
 * The tables are in the order in which a reorg locks them: the block's comes last.
 * @param question - the `from` that defines `q` with its chain_id
 * @param found - a subquery that may use `q`
 * @param columns - the columns of each row
 */
export const selectWithBlock = (
  { db }: Database,
  schema: string,
  { question, found, columns, order }: { question: SQL; found: SQLWrapper; columns: Columns; order: SQL },
) => {
  const { indexedBlock } = indexTables(schema);
  return db
    .select({ ...selectFreshness(indexedBlock), ...aliasColumns(columns) })
    .from(question)
    .leftJoinLateral(sql`(${found}) found`, sql`true`)
    .leftJoin(indexedBlock, eq(indexedBlock.chainId, sql`q.chain_id`))
    .orderBy(order);
};

export type ExplorerResult<Row> = { freshness: Freshness | null; rows: Row[] };

/** Reads the rows of selectWithBlock(). */
export const readResult = <Row extends ExplorerRow>(
  rows: readonly (FreshnessColumns & Row)[],
): ExplorerResult<Row> => ({
  freshness: readFreshness(rows[0]),
  rows: rows.filter(({ registry }) => registry !== null),
});
