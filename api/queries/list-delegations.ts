import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import { Batch, type BatchLoad } from "../batch.ts";
import type { Cursor, Database } from "../database.ts";
import type { TextRow } from "../text-query.ts";
import { type Freshness, freshnessColumns, readFreshness } from "./freshness.ts";

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
export type ListedDelegation = Position & {
  type: string;
  /** The wallet at the other end. */
  other: Address;
  contract: Address;
  tokenId: string;
  details: { rights: string; amount: string; blockTimestamp: string; transactionHash: string } | null;
};

export type Page = { delegations: ListedDelegation[]; freshness: Freshness | null };

/** Which rows a statement gives of a list. */
type ListKind = Pick<ListQuestion, "schema" | "version" | "hasDetails">;

const nameOf = ({ schema, version, hasDetails }: ListKind) =>
  `${schema} ${version} list${hasDetails ? " with details" : ""}`;

/**
 * One direction of a wallet's delegations, oldest first. While the index catches up no chain has a block and
 * nothing is looked for: the indexes for lists are gone then. That is asked once in a statement, not for each wallet.
 */
const half = (
  { schema, version, hasDetails }: ListKind,
  direction: 0 | 1,
  { chainId, wallet, after, limit }: { chainId: string; wallet: string; after?: string; limit: string },
): string => {
  const [end, other] = direction === 0 ? ["delegate", "vault"] : ["vault", "delegate"];
  const rights = version === "v2" ? "rights, amount" : "'' as rights, 0 as amount";
  const details = hasDetails ? `, ${rights}, block_timestamp, transaction_hash` : "";
  // A delegation to itself is listed once, as incoming.
  const condition = direction === 0 ? "" : "and vault <> delegate";
  return `
    (select ${direction} as direction, block_number, log_index, type, ${other} as other, contract, token_id ${details}
     from "${schema}".delegation_${version}
     where chain_id = ${chainId} and ${end} = ${wallet} and block_number >= 0 ${condition}
       ${after === undefined ? "" : `and (block_number, log_index) > (${after})`}
       and exists (select from "${schema}".indexed_block)
     order by block_number, log_index
     limit ${limit})`;
};

const columnsOf = ({ hasDetails }: ListKind) =>
  `direction, block_number, log_index, type, other, contract, token_id${hasDetails ? ", rights, amount, block_timestamp, transaction_hash" : ""}`;

/** The row that tells the block, as direction -1: so there is one also where there is no delegation. */
const blockColumns = (hasDetails: boolean) => `
  -1 as direction, block.number as block_number, 0 as log_index, block.timestamp::text, block.finalized_number::text,
  null, null ${hasDetails ? ", null, null, null, null" : ""}`;

/** A wallet's delegations after a position, behind a row that tells the block. */
export const listStatement = (kind: ListKind): string => {
  const given = { chainId: "$1", wallet: "$2", limit: "$7::int" };
  const incoming = half(kind, 0, { ...given, after: "$3::bigint, $4::int" });
  const outgoing = half(kind, 1, { ...given, after: "$5::bigint, $6::int" });
  // The tables in the order in which a reorg locks them.
  return `
      with list as (${incoming} union all ${outgoing})
      select ${blockColumns(kind.hasDetails)}
      from (values ($1::bigint)) as q (chain_id)
      left join "${kind.schema}".indexed_block block on block.chain_id = q.chain_id
      union all
      select * from list
      order by direction, block_number, log_index
      limit $7::int + 1`;
};

/** Lists of at most so many are read together; one more tells that a list is longer. */
const SHORT_LIST = 20;

/** The lists of several wallets as far as they are short, each in one column with its block: the least work for both sides. */
export const shortListsStatement = (kind: ListKind): string => {
  const given = { chainId: "q.chain_id", wallet: "q.wallet", limit: `${SHORT_LIST + 1}` };
  // A half comes in its order, and is put together in it.
  const joined = (direction: 0 | 1) =>
    `(select string_agg(concat_ws(' ', ${columnsOf(kind)}), ',') from ${half(kind, direction, given)} half)`;
  // The tables in the order in which a reorg locks them.
  return `
      select concat_ws('|', q.position, concat_ws(',', list.incoming, list.outgoing), ${freshnessColumns("block")})
      from unnest($1::bigint[], $2::text[]) with ordinality as q (chain_id, wallet, position)
      cross join lateral (select ${joined(0)} as incoming, ${joined(1)} as outgoing) list
      left join "${kind.schema}".indexed_block block on block.chain_id = q.chain_id
      order by q.position`;
};

/** Before the first event, and after the last. */
const START = ["-1", "-1"] as const;
const END = ["9223372036854775807", "0"] as const;

const listValues = (
  { chainId, wallet }: ListQuestion,
  limit: number | null,
  after?: Position,
): (string | number | null)[] => {
  const place = after ? ([after.blockNumber, after.logIndex] as const) : START;
  const [incoming, outgoing] = after?.direction === "outgoing" ? [END, place] : [place, START];
  return [chainId, wallet, ...incoming, ...outgoing, limit];
};

/** Texts of statements, put together once. */
const statements = new Map<string, string>();

const listText = (kind: ListKind): string => {
  const name = nameOf(kind);
  const text = statements.get(name) ?? listStatement(kind);
  statements.set(name, text);
  return text;
};

/** A part of a wallet's list, and the block that it is true at. */
export const readPage = async (
  database: Database,
  question: ListQuestion,
  limit: number,
  after?: Position,
): Promise<Page> => {
  const [block, ...rows] = await database.queryList({
    name: nameOf(question),
    text: listText(question),
    values: listValues(question, limit, after),
  });
  return { freshness: readBlock(block), delegations: rows.map(readDelegation) };
};

/** Reads lists that are short, several at a time. */
export class ShortLists {
  readonly #database: Database;
  readonly #load: BatchLoad;
  readonly #batches = new Map<string, Batch<ListQuestion, Page | null>>();

  constructor(database: Database, load: BatchLoad) {
    this.#database = database;
    this.#load = load;
  }

  /** A wallet's whole list; null where it is not short. */
  read(question: ListQuestion): Promise<Page | null> {
    const name = nameOf(question);
    let batch = this.#batches.get(name);
    if (!batch) {
      const { schema, version, hasDetails } = question;
      const text = shortListsStatement({ schema, version, hasDetails });
      batch = new Batch((questions) => this.#readAll(`${name}s`, text, questions), this.#load);
      this.#batches.set(name, batch);
    }
    return batch.answer(question);
  }

  async #readAll(name: string, text: string, questions: readonly ListQuestion[]): Promise<(Page | null)[]> {
    const rows = await this.#database.queryList({
      name,
      text,
      values: [
        `{${questions.map(({ chainId }) => chainId).join()}}`,
        `{${questions.map(({ wallet }) => wallet).join()}}`,
      ],
    });
    return rows.map(([text], index) => {
      const [position, list, number = null, timestamp, finalized] = text?.split("|") ?? [];
      // Nobody may get somebody else's list.
      if (Number(position) !== index + 1) throw new Error(`Row ${index + 1} is list ${position}.`);
      const delegations = list ? list.split(",").map((delegation) => readDelegation(delegation.split(" "))) : [];
      if (delegations.length > SHORT_LIST) return null;
      return { freshness: readFreshness([number, timestamp, finalized]), delegations };
    });
  }
}

/** A wallet's whole list, to be read part by part. The parts are of one moment. */
export const openList = async (database: Database, question: ListQuestion): Promise<List> => {
  const { first, cursor } = await database.openCursor(listText(question), listValues(question, null));
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

const readBlock = (row: TextRow = []): Freshness | null => {
  const [, number = null, , timestamp, finalized] = row;
  return readFreshness([number, timestamp, finalized]);
};

const readDelegation = (row: TextRow): ListedDelegation => ({
  direction: row[0] === "0" ? "incoming" : "outgoing",
  blockNumber: String(row[1]),
  logIndex: String(row[2]),
  type: String(row[3]),
  other: row[4] as Address,
  contract: row[5] as Address,
  tokenId: String(row[6]),
  details:
    row.length > 7
      ? {
          rights: String(row[7]),
          amount: String(row[8]),
          blockTimestamp: String(row[9]),
          transactionHash: String(row[10]),
        }
      : null,
});
