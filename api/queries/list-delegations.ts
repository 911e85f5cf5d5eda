import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import type { Cursor, Database } from "../database.ts";
import { type Freshness, readFreshness } from "./freshness.ts";

/** A place in a wallet's list: incoming first, then outgoing, each by the event that made it active. Digits. */
export type Position = { direction: "incoming" | "outgoing"; blockNumber: string; logIndex: string };

/** Which list, and how much is to be known of each delegation. */
export type ListQuestion = {
  schema: string;
  version: RegistryVersion;
  chainId: number;
  wallet: Address;
  hasDetails: boolean;
};

/** Numbers are digits. */
export type ListedDelegation = {
  position: Position;
  type: string;
  /** The wallet at the other end. */
  other: Address;
  contract: Address;
  tokenId: string;
  details: { rights: string; amount: string; blockTimestamp: string; transactionHash: string } | null;
};

export type Page = { delegations: ListedDelegation[]; freshness: Freshness | null };

/**
 * A wallet's delegations after a position. The first row tells the block, as direction -1; so there is
 * one also where there is no delegation. A delegation to itself is listed once, as incoming. While the
 * index catches up there is no block and nothing is looked for: the indexes for lists are gone then.
 */
export const listStatement = ({ schema, version, hasDetails }: Omit<ListQuestion, "chainId" | "wallet">): string => {
  const rights = version === "v2" ? "rights, amount" : "'', 0";
  const details = hasDetails ? `, ${rights}, block_timestamp, transaction_hash` : "";
  const half = (direction: 0 | 1, end: string, other: string, after: string, condition = "") => `
    (select ${direction} as direction, block_number, log_index, type, ${other}, contract, token_id ${details}
     from "${schema}".delegation_${version}
     where chain_id = $1 and ${end} = $2 and block_number >= 0 and (block_number, log_index) > (${after}) ${condition}
       and exists (select from "${schema}".indexed_block where chain_id = $1)
     order by block_number, log_index
     limit $7::int)`;
  const incoming = half(0, "delegate", "vault", "$3::bigint, $4::int");
  const outgoing = half(1, "vault", "delegate", "$5::bigint, $6::int", "and delegate <> $2");
  // The tables in the order in which a reorg locks them.
  return `
      with list as (${incoming} union all ${outgoing})
      select -1 as direction, block.number as block_number, 0 as log_index, block.timestamp::text, block.finalized_number::text,
        null, null ${hasDetails ? ", null, null, null, null" : ""}
      from (values ($1::bigint)) as q (chain_id)
      left join "${schema}".indexed_block block on block.chain_id = q.chain_id
      union all
      select * from list
      order by direction, block_number, log_index
      limit $7::int + 1`;
};

/** Before the first event, and after the last. */
const START = ["-1", "-1"] as const;
const END = ["9223372036854775807", "0"] as const;

const listValues = ({ chainId, wallet }: ListQuestion, limit: number | null, after?: Position): unknown[] => {
  const place = after ? ([after.blockNumber, after.logIndex] as const) : START;
  const [incoming, outgoing] = after?.direction === "outgoing" ? [END, place] : [place, START];
  return [chainId, wallet, ...incoming, ...outgoing, limit];
};

/** A part of a wallet's list, and the block that it is true at. */
export const readPage = async (
  database: Database,
  question: ListQuestion,
  limit: number,
  after?: Position,
): Promise<Page> => {
  const { schema, version, hasDetails } = question;
  const [block, ...rows] = await database.queryList({
    name: `${schema} ${version} list${hasDetails ? " with details" : ""}`,
    text: listStatement(question),
    values: listValues(question, limit, after),
  });
  return { freshness: readBlock(block), delegations: rows.map(readDelegation) };
};

/** A wallet's whole list, to be read part by part. The parts are of one moment. */
export const openList = async (database: Database, question: ListQuestion): Promise<List> => {
  const { first, cursor } = await database.openCursor(listStatement(question), listValues(question, null));
  return new List(cursor, readBlock(first));
};

export class List {
  readonly #cursor: Cursor;
  readonly freshness: Freshness | null;

  constructor(cursor: Cursor, freshness: Freshness | null) {
    this.#cursor = cursor;
    this.freshness = freshness;
  }

  /** The next part; empty at the end. */
  async read(count: number): Promise<ListedDelegation[]> {
    return (await this.#cursor.fetch(count)).map(readDelegation);
  }

  close(): Promise<void> {
    return this.#cursor.close();
  }
}

const readBlock = (row: readonly unknown[] = []): Freshness | null => {
  const [, number = null, , timestamp, finalized] = row;
  return readFreshness([number, timestamp, finalized]);
};

const readDelegation = (row: readonly unknown[]): ListedDelegation => {
  const [direction, blockNumber, logIndex, type, other, contract, tokenId, ...details] = row;
  const [rights, amount, blockTimestamp, transactionHash] = details.map(String);
  return {
    position: {
      direction: direction === 0 ? "incoming" : "outgoing",
      blockNumber: String(blockNumber),
      logIndex: String(logIndex),
    },
    type: String(type),
    other: String(other) as Address,
    contract: String(contract) as Address,
    tokenId: String(tokenId),
    details:
      rights !== undefined && amount !== undefined && blockTimestamp !== undefined && transactionHash !== undefined
        ? { rights, amount, blockTimestamp, transactionHash }
        : null,
  };
};
