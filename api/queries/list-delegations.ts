import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import type { Cursor, Database } from "../database.ts";
import { type Freshness, freshnessColumns, readFreshness } from "./freshness.ts";

/** A place in a wallet's list: incoming first, then outgoing, each by the event that made it active. */
export type Position = { direction: "incoming" | "outgoing"; blockNumber: bigint; logIndex: number };

export type ListQuestion = { chainId: number; wallet: Address };

export type ListedDelegation = {
  position: Position;
  type: string;
  /** The wallet at the other end. */
  other: Address;
  contract: Address;
  /** Digits. */
  tokenId: string;
  rights: string;
  amount: string;
  blockTimestamp: string;
  transactionHash: string;
};

export type Page = { delegations: ListedDelegation[]; freshness: Freshness | null };

/**
 * A wallet's delegations after a position. A delegation to itself is listed once, as incoming. Where
 * there is no delegation, one row still tells the block.
 */
export const listStatement = (schema: string, version: RegistryVersion) => {
  const half = (direction: 0 | 1, end: string, other: string, after: string, condition = "") => `
    (select ${direction} as direction, block_number, log_index, type, ${other} as other, contract, token_id,
       ${version === "v2" ? "rights, amount" : "null::text as rights, null::numeric as amount"},
       block_timestamp, transaction_hash
     from "${schema}".delegation_${version}
     where chain_id = $1 and ${end} = $2 and block_number >= 0 and (block_number, log_index) > (${after}) ${condition}
     order by block_number, log_index
     limit $7::int)`;
  const incoming = half(0, "delegate", "vault", "$3::bigint, $4::int");
  const outgoing = half(1, "vault", "delegate", "$5::bigint, $6::int", "and delegate <> $2");
  return {
    name: `${schema} ${version} list`,
    // The tables in the order in which a reorg locks them.
    text: `
      with list as (${incoming} union all ${outgoing})
      select ${freshnessColumns("block")}, list.*
      from (values ($1::bigint)) as q (chain_id)
      left join "${schema}".indexed_block block on block.chain_id = q.chain_id
      left join list on true
      order by list.direction, list.block_number, list.log_index
      limit $7::int`,
  };
};

/** Before the first event, and after the last. */
const START = ["-1", -1] as const;
const END = ["9223372036854775807", 0] as const;

export const listValues = ({ chainId, wallet }: ListQuestion, limit: number | null, after?: Position): unknown[] => {
  const place = after ? ([after.blockNumber.toString(), after.logIndex] as const) : START;
  const [incoming, outgoing] = after?.direction === "outgoing" ? [END, place] : [place, START];
  return [chainId, wallet, ...incoming, ...outgoing, limit];
};

/** A part of a wallet's list, and the block that it is true at. */
export const readPage = async (
  database: Database,
  schema: string,
  version: RegistryVersion,
  question: ListQuestion,
  limit: number,
  after?: Position,
): Promise<Page> => {
  const values = listValues(question, limit, after);
  return readRows(await database.query({ ...listStatement(schema, version), values }));
};

/** A wallet's whole list, to be fetched part by part. The parts are of one moment. */
export const openList = async (
  database: Database,
  schema: string,
  version: RegistryVersion,
  question: ListQuestion,
): Promise<List> => {
  const { text } = listStatement(schema, version);
  return new List(await database.openCursor(text, listValues(question, null)));
};

export class List {
  readonly #cursor: Cursor;

  constructor(cursor: Cursor) {
    this.#cursor = cursor;
  }

  /** The next part; empty at the end. */
  async read(count: number): Promise<Page> {
    return readRows(await this.#cursor.fetch(count));
  }

  close(): Promise<void> {
    return this.#cursor.close();
  }
}

const readRows = (rows: readonly (readonly unknown[])[]): Page => {
  const [first] = rows;
  return {
    freshness: first ? readFreshness(first) : null,
    delegations: rows.flatMap((row) => (row[3] === null ? [] : [readDelegation(row)])),
  };
};

const readDelegation = (row: readonly unknown[]): ListedDelegation => {
  const [, , , direction, blockNumber, logIndex, type, other, contract, tokenId, rights, amount, timestamp, hash] = row;
  return {
    position: {
      direction: direction === 0 ? "incoming" : "outgoing",
      blockNumber: BigInt(String(blockNumber)),
      logIndex: Number(logIndex),
    },
    type: String(type),
    other: String(other) as Address,
    contract: String(contract) as Address,
    tokenId: String(tokenId),
    rights: String(rights),
    amount: String(amount),
    blockTimestamp: String(timestamp),
    transactionHash: String(hash),
  };
};
