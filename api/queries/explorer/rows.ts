import { eq, type SQL, type SQLWrapper, sql } from "drizzle-orm";
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

/** What is told of a delegation, and the columns of `found` that tell it. */
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

/** The columns of `found`, from those of a table. */
export const delegationColumns = (delegation: Record<keyof ExplorerRow, SQLWrapper>) =>
  named(
    Object.fromEntries(
      Object.entries(COLUMNS).map(([name, column]) => [column, delegation[name as keyof ExplorerRow]]),
    ),
  );

/** What is told of a row of `found`. */
export const FOUND: Columns = Object.fromEntries(
  Object.entries(COLUMNS).map(([name, column]) => [name, sql`found.${sql.identifier(column)}`]),
);

/** One chain, for what is asked of one. */
export const ONE_CHAIN = sql`(values (${sql.placeholder("chainId")}::bigint)) as q (chain_id)`;

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

export type Found<Row> = { freshness: Freshness | null; rows: Row[] };

/** Reads what withBlock() gives. */
export const readFound = <Row extends ExplorerRow>(rows: readonly (FreshnessColumns & Row)[]): Found<Row> => ({
  freshness: readFreshness(rows[0]),
  rows: rows.filter(({ registry }) => registry !== null),
});
