import { and, eq, ne, type Placeholder, type SQL, sql } from "drizzle-orm";
import { unionAll } from "drizzle-orm/pg-core";
import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import { Batch, type BatchLoad } from "../batch.ts";
import { type Cursor, compile, type Database, type Statement } from "../database.ts";
import { delegationTable, indexTables } from "../tables.ts";
import { named, nothing, pick } from "./columns.ts";
import { type Freshness, type FreshnessColumns, freshnessOf, readFreshness, whileServed } from "./freshness.ts";

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

const INCOMING = 0;
const OUTGOING = 1;

/** Some of a list's rows, as Postgres sends them. The block is told by each, or by one of its own without a delegation. */
type ListRow = FreshnessColumns & {
  /** Of several lists, the one that it belongs to, from 1. */
  list?: string;
  direction: number | null;
  blockNumber: string;
  logIndex: number;
  type: string;
  other: Address;
  contract: Address;
  tokenId: string;
  rights?: string;
  amount?: string;
  blockTimestamp?: string;
  transactionHash?: string;
};

const ORDER = sql`"direction" nulls first, "blockNumber", "logIndex"`;

/** Whose list, from where on, and how much of it. */
type Part = { chainId: SQL; wallet: SQL; after?: SQL; limit: number | Placeholder };

/**
 * One direction of a wallet's delegations, oldest first. While the index catches up no chain has a block and
 * nothing is looked for: the indexes for lists are gone then. That is asked once in a statement, not for each wallet.
 */
const half = (
  database: Database,
  { schema, version, hasDetails }: ListKind,
  direction: typeof INCOMING | typeof OUTGOING,
  { chainId, wallet, after, limit }: Part,
) => {
  const { delegationV2 } = indexTables(schema);
  const table = delegationTable(schema, version);
  const [end, other] = direction === INCOMING ? [table.delegate, table.vault] : [table.vault, table.delegate];
  const ofV2 = version === "v2" && { rights: delegationV2.rights, amount: delegationV2.amount };
  const details = { ...ofV2, blockTimestamp: table.blockTimestamp, transactionHash: table.transactionHash };
  return database.db
    .select(
      named({
        direction: sql.raw(String(direction)),
        blockNumber: table.blockNumber,
        logIndex: table.logIndex,
        type: table.type,
        other,
        contract: table.contract,
        tokenId: table.tokenId,
        ...(hasDetails && details),
      }),
    )
    .from(table)
    .where(
      and(
        eq(table.chainId, chainId),
        eq(end, wallet),
        // The indexes for lists serve only statements that say this: see ponder.schema.ts.
        sql`${table.blockNumber} >= 0`,
        // A delegation to itself is listed once, as incoming.
        direction === OUTGOING ? ne(table.vault, table.delegate) : undefined,
        after && sql`(${table.blockNumber}, ${table.logIndex}) > (${after})`,
        whileServed(database, schema),
      ),
    )
    .orderBy(table.blockNumber, table.logIndex)
    .limit(limit);
};

const value = sql.placeholder;

/** A wallet's delegations after a position, and before them a row that tells the block. */
export const listStatement = (database: Database, kind: ListKind): Statement<ListRow> => {
  const { db } = database;
  const { indexedBlock } = indexTables(kind.schema);
  const part = { chainId: sql`${value("chainId")}`, wallet: sql`${value("wallet")}`, limit: value("limit") };
  const incoming = half(database, kind, INCOMING, {
    ...part,
    after: sql`${value("incomingBlock")}::bigint, ${value("incomingLog")}::int`,
  });
  const outgoing = half(database, kind, OUTGOING, {
    ...part,
    after: sql`${value("outgoingBlock")}::bigint, ${value("outgoingLog")}::int`,
  });
  const list = unionAll(incoming, outgoing).as("list");
  const columns = Object.keys(list._.selectedFields);
  const freshness = freshnessOf(indexedBlock);
  // The tables in the order in which a reorg locks them.
  const query = unionAll(
    db.select({ ...nothing(Object.keys(freshness)), ...pick(list, columns) }).from(list),
    db
      .select({ ...freshness, ...nothing(columns) })
      .from(sql`(values (${value("chainId")}::bigint)) as q (chain_id)`)
      .leftJoin(indexedBlock, eq(indexedBlock.chainId, sql`q.chain_id`)),
  );
  return compile(nameOf(kind), query.orderBy(ORDER).limit(value("rows")));
};

/** Lists of at most so many are read together; one more tells that a list is longer. */
const SHORT_LIST = 20;

/** The lists of several wallets, in their order, as far as they are short. */
export const shortListsStatement = (database: Database, kind: ListKind): Statement<ListRow> => {
  const { indexedBlock } = indexTables(kind.schema);
  const part = { chainId: sql`q.chain_id`, wallet: sql`q.wallet`, limit: SHORT_LIST + 1 };
  const list = unionAll(half(database, kind, INCOMING, part), half(database, kind, OUTGOING, part)).as("list");
  // The tables in the order in which a reorg locks them.
  const query = database.db
    .select({
      ...named({ list: sql`q.position` }),
      ...freshnessOf(indexedBlock),
      ...pick(list, Object.keys(list._.selectedFields)),
    })
    .from(
      sql`unnest(${value("chainIds")}::bigint[], ${value("wallets")}::text[]) with ordinality as q (chain_id, wallet, position)`,
    )
    .leftJoinLateral(list, sql`true`)
    .leftJoin(indexedBlock, eq(indexedBlock.chainId, sql`q.chain_id`))
    .orderBy(sql`q.position, ${ORDER}`);
  return compile(`${nameOf(kind)}s`, query);
};

/** Before the first event, and after the last. */
const START = { block: "-1", log: "-1" };
const END = { block: "9223372036854775807", log: "0" };

const listValues = ({ chainId, wallet }: ListQuestion, limit: number | null, after?: Position) => {
  const place = after ? { block: after.blockNumber, log: after.logIndex } : START;
  const [incoming, outgoing] = after?.direction === "outgoing" ? [END, place] : [place, START];
  return {
    chainId,
    wallet,
    incomingBlock: incoming.block,
    incomingLog: incoming.log,
    outgoingBlock: outgoing.block,
    outgoingLog: outgoing.log,
    limit,
    rows: limit === null ? null : limit + 1,
  };
};

/** Reads lists of wallets: several short ones at a time, and longer ones one by one. */
export class DelegationLists {
  readonly #database: Database;
  readonly #load: BatchLoad;
  readonly #batches = new Map<string, Batch<ListQuestion, Page | null>>();
  readonly #statements = new Map<string, Statement<ListRow>>();

  constructor(database: Database, load: BatchLoad) {
    this.#database = database;
    this.#load = load;
  }

  /** A wallet's whole list; null where it is not short. */
  readShort(question: ListQuestion): Promise<Page | null> {
    const name = nameOf(question);
    let batch = this.#batches.get(name);
    if (!batch) {
      const statement = shortListsStatement(this.#database, question);
      batch = new Batch((questions) => this.#readShort(statement, questions), this.#load);
      this.#batches.set(name, batch);
    }
    return batch.answer(question);
  }

  async #readShort(statement: Statement<ListRow>, questions: readonly ListQuestion[]): Promise<(Page | null)[]> {
    const rows = await this.#database.read("lists", statement, {
      chainIds: questions.map(({ chainId }) => chainId),
      wallets: questions.map(({ wallet }) => wallet),
    });
    const pages = questions.map((): Page => ({ freshness: null, delegations: [] }));
    for (const row of rows) {
      const page = pages[Number(row.list) - 1];
      if (!page) throw new Error(`There are ${questions.length} lists, and no list ${row.list}.`);
      page.freshness ??= readFreshness(row);
      if (row.direction !== null) page.delegations.push(readDelegation(row));
    }
    return pages.map((page) => (page.delegations.length > SHORT_LIST ? null : page));
  }

  /** A part of a wallet's list, and the block that it is true at. */
  async readPage(question: ListQuestion, limit: number, after?: Position): Promise<Page> {
    const values = listValues(question, limit, after);
    const [block, ...rows] = await this.#database.read("lists", this.#statementOf(question), values);
    return { freshness: readFreshness(block), delegations: rows.map(readDelegation) };
  }

  /** A wallet's whole list, to be read part by part. The parts are of one moment. */
  async open(question: ListQuestion): Promise<List> {
    const statement = this.#statementOf(question);
    const { first, cursor } = await this.#database.openCursor(statement, listValues(question, null));
    return new List(cursor, readFreshness(first));
  }

  #statementOf(question: ListQuestion): Statement<ListRow> {
    const name = nameOf(question);
    let statement = this.#statements.get(name);
    if (!statement) {
      statement = listStatement(this.#database, question);
      this.#statements.set(name, statement);
    }
    return statement;
  }
}

export class List {
  readonly #cursor: Cursor<ListRow>;
  readonly freshness: Freshness | null;

  constructor(cursor: Cursor<ListRow>, freshness: Freshness | null) {
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

const readDelegation = (row: ListRow): ListedDelegation => {
  const { direction, blockNumber, logIndex, type, other, contract, tokenId, transactionHash } = row;
  const { rights = "", amount = "0", blockTimestamp = "" } = row;
  return {
    direction: direction === INCOMING ? "incoming" : "outgoing",
    blockNumber,
    logIndex: String(logIndex),
    type,
    other,
    contract,
    tokenId,
    details: transactionHash === undefined ? null : { rights, amount, blockTimestamp, transactionHash },
  };
};
