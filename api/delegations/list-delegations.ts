import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import type { Caller } from "../context.ts";
import { type Position, takePage } from "../contract/paging.ts";
import { MAX_LIMIT } from "../contract/parameters.ts";
import { type BatchLoad, BatchQueue } from "../database/batch-queue.ts";
import type { Database } from "../database/database.ts";
import { type Freshness, readFreshness } from "../database/freshness.ts";
import { memoize } from "../database/memoize.ts";
import { POOLS } from "../database/pools.ts";
import { overloaded } from "../database/problems.ts";
import type { SqlCursor } from "../database/sql-cursor.ts";
import type { Statement } from "../database/statement.ts";
import { type Release, Turns } from "../limits/turns.ts";
import { momentOf } from "./check-delegation.ts";
import type { ListKind, ListRow } from "./list-directions.ts";
import { listStatement, listValues, MAX_SHORT_LIST, nameKind, shortListsStatement } from "./list-statements.ts";

export type ListQuestion = {
  schema: string;
  version: RegistryVersion;
  chainId: number;
  wallet: Address;
  hasDetails: boolean;
  /** A past block, in digits. Absent: the newest one. */
  block?: string | undefined;
};

type ShortList = { rows: ListRow[]; freshness: Freshness | null };

/** `end` is the last row if the list goes on. */
type ListPage = ShortList & { end: ListRow | null };

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
  readonly #findQueue: (kind: ListKind) => BatchQueue<ListQuestion, ShortList | null>;
  readonly #findStatement: (kind: ListKind) => Statement<ListRow>;
  /** A long list holds a connection while it is read. */
  readonly #turns = new Turns({ places: POOLS.cursors.max, ...LIST_TURNS });
  readonly #turnsOfOwners = new Turns({ places: Number.POSITIVE_INFINITY, ...LIST_TURNS });

  constructor(database: Database, load: BatchLoad) {
    this.#database = database;
    this.#findQueue = memoize((kind) => {
      const statement = shortListsStatement(database, kind);
      return new BatchQueue((questions) => this.#readShortLists(statement, questions), load);
    }, nameKind);
    this.#findStatement = memoize((kind) => listStatement(database, kind), nameKind);
  }

  /** Reads a wallet's whole list. Returns null if the list is not short. */
  readShort(question: ListQuestion): Promise<ShortList | null> {
    return this.#findQueue(kindOf(question)).answer(question);
  }

  async #readShortLists(
    statement: Statement<ListRow>,
    questions: readonly ListQuestion[],
  ): Promise<(ShortList | null)[]> {
    const rows = await this.#database.read("lists", statement, {
      chainIds: questions.map(({ chainId }) => chainId),
      wallets: questions.map(({ wallet }) => wallet),
      blocks: questions.map(({ block }) => block ?? null),
    });
    const lists = questions.map(() => ({ freshness: null as Freshness | null, rows: [] as ListRow[] }));
    for (const row of rows) {
      const list = lists[Number(row.list) - 1];
      if (!list) throw new Error(`A row belongs to list ${row.list} of ${questions.length}.`);
      list.freshness ??= readFreshness(row);
      if (row.direction !== null) list.rows.push(row);
    }
    return lists.map(({ freshness, rows }) => {
      const { page, end } = takePage(rows, MAX_SHORT_LIST);
      return end === null ? { freshness, rows: page } : null;
    });
  }

  /** Reads up to `size` delegations of a list after a position. At a past block there may be fewer, and yet a next page. */
  async readPage(question: ListQuestion, size: number, after?: Position): Promise<ListPage> {
    // One more tells if there is a next page.
    const values = listValues(question, size + 1, after);
    const [block, ...rows] = await this.#database.read("lists", this.#findStatement(kindOf(question)), values);
    const { page, end } = takePage(rows, size);
    return { freshness: readFreshness(block), rows: page, end };
  }

  /** Opens a wallet's whole list, to read it in chunks, when it is the caller's turn. All chunks are of one moment. */
  async open(question: ListQuestion, caller: Caller): Promise<OpenList> {
    const endTurn = await this.#takeTurn(caller);
    try {
      const statement = this.#findStatement(kindOf(question));
      const { first, cursor } = await this.#database.openCursor(statement, listValues(question, null));
      return new OpenList(cursor, readFreshness(first), endTurn);
    } catch (error) {
      endTurn();
      throw error;
    }
  }

  /** By owner and by address: neither several keys nor several addresses give a caller all places. */
  async #takeTurn({ client, key }: Caller): Promise<Release> {
    if (key === null) return this.#turns.take(client, 1, MAX_OPEN);
    const endTurnOfOwner = await this.#turnsOfOwners.take(key.owner, 1, MAX_OPEN_WITH_KEY);
    try {
      const endTurn = await this.#turns.take(client, 1, MAX_OPEN_WITH_KEY);
      return () => {
        endTurn();
        endTurnOfOwner();
      };
    } catch (error) {
      endTurnOfOwner();
      throw error;
    }
  }
}

const kindOf = ({ schema, version, hasDetails, block }: ListQuestion): ListKind => ({
  schema,
  version,
  hasDetails,
  moment: momentOf({ block }),
});

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
  read(count: number): Promise<ListRow[]> {
    return this.#cursor.fetch(count);
  }

  async close(): Promise<void> {
    await this.#cursor.close();
    this.#endTurn();
  }
}
