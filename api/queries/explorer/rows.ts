import type { Address } from "viem";
import type { RegistryVersion } from "../../../registry/networks.ts";
import type { TextRow } from "../../text-query.ts";
import { type Freshness, freshnessColumns, readFreshness } from "../freshness.ts";

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
  logIndex: string;
  blockTimestamp: string;
  transactionHash: string;
};

/** A place in a list by which its next page is found. Digits. */
export type Place = { blockNumber: string; logIndex: string; ordinal: string };

/** After the newest event. */
export const NEWEST: Place = { blockNumber: "9223372036854775807", logIndex: "0", ordinal: "0" };

/** What is read of a delegation, in the order in which readRow() expects it. */
const DELEGATION = [
  "registry",
  "type",
  "vault",
  "delegate",
  "contract",
  "token_id",
  "rights",
  "amount",
  "block_number",
  "log_index",
  "block_timestamp",
  "transaction_hash",
];

export const COLUMNS = DELEGATION.join(", ");

/**
 * Rows, each with the block that they are true at; one row without anything else where there are none.
 * The tables in the order in which a reorg locks them: the block's comes last.
 * @param question the `from` that `q` with its chain_id comes from
 * @param rows a query, in which `q` is known
 * @param others what else is to be told of each row
 */
export const withBlock = (
  schema: string,
  { question, rows, others, order }: { question: string; rows: string; others: readonly string[]; order: string },
): string => `
  select ${[freshnessColumns("block"), ...others, ...DELEGATION.map((column) => `found.${column}`)].join(", ")}
  from ${question}
  left join lateral (${rows}) found on true
  left join "${schema}".indexed_block block on block.chain_id = q.chain_id
  order by ${order}`;

/** While the index catches up no chain has a block and nothing is looked for: the indexes for lists are gone then. */
export const whileServed = (schema: string): string => `exists (select from "${schema}".indexed_block)`;

/** A row has the columns that tell the block, the others that were asked for, and those of the delegation. */
const BLOCK_COLUMNS = 3;

export type Found<Row> = { freshness: Freshness | null; rows: Row[] };

/** Reads what withBlock() gives: from the other columns, and from the delegation. */
export const readFound = <Row>(
  rows: readonly TextRow[],
  read: (others: TextRow, delegation: ExplorerRow) => Row,
): Found<Row> => ({
  freshness: readFreshness(rows[0] ?? [null]),
  rows: rows.flatMap((row) => {
    const delegation = row.slice(-DELEGATION.length);
    return delegation[0] === null ? [] : read(row.slice(BLOCK_COLUMNS), readRow(delegation));
  }),
});

const readRow = (row: TextRow): ExplorerRow => ({
  registry: row[0] === "v1" ? "v1" : "v2",
  type: String(row[1]),
  vault: row[2] as Address,
  delegate: row[3] as Address,
  contract: row[4] as Address,
  tokenId: String(row[5]),
  rights: String(row[6]),
  amount: String(row[7]),
  blockNumber: String(row[8]),
  logIndex: String(row[9]),
  blockTimestamp: String(row[10]),
  transactionHash: String(row[11]),
});
