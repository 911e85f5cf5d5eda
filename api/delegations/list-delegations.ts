import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import type { Caller } from "../context.ts";
import { MAX_LIMIT } from "../contract/parameters.ts";
import { type BatchLoad, BatchQueue } from "../database/batch-queue.ts";
import type { Database } from "../database/database.ts";
import { type Freshness, readFreshness } from "../database/freshness.ts";
import { POOLS } from "../database/pools.ts";
import { overloaded } from "../database/problems.ts";
import type { SqlCursor } from "../database/sql-cursor.ts";
import type { Statement } from "../database/statement.ts";
import { type Release, Turns } from "../limits/turns.ts";
import { type ListedDelegation, type ListPosition, type ListRow, readDelegation } from "./list-rows.ts";
import { listStatement, listValues, MAX_SHORT_LIST, nameList, shortListsStatement } from "./list-statements.ts";

export type ListQuestion = {
  schema: string;
  version: RegistryVersion;
  chainId: number;
  wallet: Address;
  hasDetails: boolean;
};

type ListPage = { delegations: ListedDelegation[]; freshness: Freshness | null };

/** Maximum long lists that a caller reads at a time. */
const MAX_OPEN = 1;
const MAX_OPEN_WITH_KEY = 2;
/** Maximum long lists of a caller that wait for their turn, and for how long. */
const MAX_WAITING = 4;
const MAX_WAIT_MS = 10_000;

const LIST_TURNS = {
  maxWaiting: MAX_WAITING,
  maxWaitMs: MAX_WAIT_MS,
  refuse: () =>
    overloaded(
      `Too many lists of over ${MAX_LIMIT.toLocaleString("en")} delegations are being read: a client reads one at a time, with an API key two. Try again in a moment, or read pages with limit.`,
    ),
};

/** Reads lists of wallets: short ones together, longer ones one by one. */
export class DelegationLists {
  readonly #database: Database;
  readonly #load: BatchLoad;
  readonly #queues = new Map<string, BatchQueue<ListQuestion, ListPage | null>>();
  readonly #statements = new Map<string, Statement<ListRow>>();
  /** A long list holds a connection while it is read. */
  readonly #turns = new Turns({ places: POOLS.cursors.max, ...LIST_TURNS });
  readonly #turnsOfOwners = new Turns({ places: Number.POSITIVE_INFINITY, ...LIST_TURNS });

  constructor(database: Database, load: BatchLoad) {
    this.#database = database;
    this.#load = load;
  }

  /** Reads a wallet's whole list. Returns null if the list is not short. */
  readShort(question: ListQuestion): Promise<ListPage | null> {
    const name = nameList(question);
    let queue = this.#queues.get(name);
    if (!queue) {
      const statement = shortListsStatement(this.#database, question);
      queue = new BatchQueue((questions) => this.#readShortLists(statement, questions), this.#load);
      this.#queues.set(name, queue);
    }
    return queue.answer(question);
  }

  async #readShortLists(
    statement: Statement<ListRow>,
    questions: readonly ListQuestion[],
  ): Promise<(ListPage | null)[]> {
    const rows = await this.#database.read("lists", statement, {
      chainIds: questions.map(({ chainId }) => chainId),
      wallets: questions.map(({ wallet }) => wallet),
    });
    const pages = questions.map((): ListPage => ({ freshness: null, delegations: [] }));
    for (const row of rows) {
      const page = pages[Number(row.list) - 1];
      if (!page) throw new Error(`A row belongs to list ${row.list} of ${questions.length}.`);
      page.freshness ??= readFreshness(row);
      if (row.direction !== null) page.delegations.push(readDelegation(row));
    }
    return pages.map((page) => (page.delegations.length > MAX_SHORT_LIST ? null : page));
  }

  async readPage(question: ListQuestion, limit: number, after?: ListPosition): Promise<ListPage> {
    const values = listValues(question, limit, after);
    const [block, ...rows] = await this.#database.read("lists", this.#findStatement(question), values);
    return { freshness: readFreshness(block), delegations: rows.map(readDelegation) };
  }

  /** Opens a wallet's whole list, to read it in chunks, when it is the caller's turn. All chunks are of one moment. */
  async open(question: ListQuestion, caller: Caller): Promise<OpenList> {
    const endTurn = await this.#takeTurn(caller);
    try {
      const statement = this.#findStatement(question);
      const { first, cursor } = await this.#database.openCursor(statement, listValues(question, null));
      return new OpenList(cursor, readFreshness(first), endTurn);
    } catch (error) {
      endTurn();
      throw error;
    }
  }

  /** By owner and by address: neither several keys nor several addresses give a caller all places. */
  async #takeTurn({ client, owner }: Caller): Promise<Release> {
    if (owner === null) return this.#turns.take(client, MAX_OPEN);
    const endTurnOfOwner = await this.#turnsOfOwners.take(owner, MAX_OPEN_WITH_KEY);
    try {
      const endTurn = await this.#turns.take(client, MAX_OPEN_WITH_KEY);
      return () => {
        endTurn();
        endTurnOfOwner();
      };
    } catch (error) {
      endTurnOfOwner();
      throw error;
    }
  }

  #findStatement(question: ListQuestion): Statement<ListRow> {
    const name = nameList(question);
    let statement = this.#statements.get(name);
    if (!statement) {
      statement = listStatement(this.#database, question);
      this.#statements.set(name, statement);
    }
    return statement;
  }
}

/** A list that is read through an SQL cursor. */
export class OpenList {
  readonly #cursor: SqlCursor<ListRow>;
  readonly #endTurn: Release;
  readonly freshness: Freshness | null;

  constructor(cursor: SqlCursor<ListRow>, freshness: Freshness | null, endTurn: Release) {
    this.#cursor = cursor;
    this.#endTurn = endTurn;
    this.freshness = freshness;
  }

  /** Reads the next chunk; empty at the end. */
  async read(count: number): Promise<ListedDelegation[]> {
    return (await this.#cursor.fetch(count)).map(readDelegation);
  }

  async close(): Promise<void> {
    await this.#cursor.close();
    this.#endTurn();
  }
}
