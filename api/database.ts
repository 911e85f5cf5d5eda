import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Logger } from "pino";
import { ConnectionPool } from "./connection-pool.ts";
import { notIndexed, Problem } from "./problem.ts";
import { type Query, TextQuery, type TextRow } from "./text-query.ts";
import { within } from "./within.ts";

/** For checks, which share statements: a few are enough for any number of requests. */
const CHECK_CONNECTIONS = 8;
/** For lists, so that they never keep checks waiting. */
const LIST_CONNECTIONS = 4;
/** For long lists, each of which has one while it is read. */
const CURSOR_CONNECTIONS = 4;
/** For what nobody waits for. */
const BACKGROUND_CONNECTIONS = 1;

/** When Postgres gives a statement up, by itself. */
const STATEMENT_TIMEOUT_MS = 1_000;
const CURSOR_TIMEOUT_MS = 20_000;
const BACKGROUND_TIMEOUT_MS = 10_000;
/** A server that has not even done that by then does not answer any more. */
const SILENCE_MS = 200;
/** How long to wait for a connection, a new one or one that others use. */
const CONNECT_TIMEOUT_MS = 1_300;
/** Whoever asked is told something by then. */
const DEADLINE_MS = 1_400;
const PROBE_MS = 500;

const RETRY_AFTER_SECONDS = "2";

/**
 * Each statement has one plan, whatever the values: an answer costs the same for every wallet. Without
 * statistics, right after a backfill, Postgres might prefer to scan a table.
 */
export const PLANNING = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off";

/** What Postgres says when two transactions wait for each other, or when a view was changed under a prepared statement. */
const DEADLOCK = "40P01";
/**
 * What a replica says when it has to go on, to where a statement could not see its rows any more. Where that comes
 * between the messages of a statement, it ends the connection, too.
 */
const CONFLICT_WITH_RECOVERY = "40001";
const CHANGED_UNDER_PLAN = "0A000";
/** When it ends a connection. */
const SHUT_DOWN = "57P01";
const STATEMENT_TIMED_OUT = "57014";
const UNDEFINED_TABLE = "42P01";
const UNDEFINED_SCHEMA = "3F000";

type Row = readonly unknown[];
type AnyQuery = { name: string; text: string; values: unknown[] };

export type PoolState = { pool: string; busy: number; idle: number; waiting: number; limit: number };

/** Runs a statement on a connection. */
type Run<Result> = (client: pg.PoolClient) => Promise<Result>;

const runQuery = async (client: pg.PoolClient, query: AnyQuery): Promise<Row[]> => {
  const { rows } = await client.query<unknown[]>({ ...query, rowMode: "array" });
  return rows;
};

const runTextQuery = (client: pg.PoolClient, query: Query): Promise<TextRow[]> =>
  new Promise((resolve, reject) => {
    client.query(new TextQuery(query, (error, rows = []) => (error ? reject(error) : resolve(rows))));
  });

const codeOf = (error: unknown): string | undefined => (error instanceof pg.DatabaseError ? error.code : undefined);

/**
 * Whether a connection is of no use after a statement failed: it is gone, or has a plan that no longer fits. Told by the
 * code: that an error was fatal, Postgres says in its own language.
 */
const isBroken = (error: unknown): boolean => {
  const code = codeOf(error);
  return code === undefined || [CHANGED_UNDER_PLAN, CONFLICT_WITH_RECOVERY, SHUT_DOWN].includes(code);
};

/** Whether a statement failed for a reason that the next one will not meet. */
const isWorthRetrying = (error: unknown): boolean => {
  const code = codeOf(error);
  if (code !== undefined) return [DEADLOCK, CONFLICT_WITH_RECOVERY, CHANGED_UNDER_PLAN, SHUT_DOWN].includes(code);
  return error instanceof Error && /connection terminated unexpectedly|ECONNRESET|EPIPE/i.test(error.message);
};

/** Statements over a bounded pool. While the database is out of reach, all of them fail at once. */
export class Database {
  readonly #url: string;
  readonly #log: Logger;
  readonly #name: string;
  readonly #checks: ConnectionPool;
  readonly #lists: ConnectionPool;
  readonly #cursors: ConnectionPool;
  readonly #background: ConnectionPool;
  #lost: Error | null = null;
  #isClosed = false;

  /** @param name - what the log calls it */
  constructor(url: string, log: Logger, name = "The database") {
    this.#url = url;
    this.#log = log;
    this.#name = name;
    this.#checks = this.#createPool(CHECK_CONNECTIONS, STATEMENT_TIMEOUT_MS);
    this.#lists = this.#createPool(LIST_CONNECTIONS, STATEMENT_TIMEOUT_MS);
    this.#cursors = this.#createPool(CURSOR_CONNECTIONS, CURSOR_TIMEOUT_MS, Infinity);
    this.#background = this.#createPool(BACKGROUND_CONNECTIONS, BACKGROUND_TIMEOUT_MS);
  }

  /** Runs a prepared statement. The rows are arrays; numbers in them are digits. */
  query(query: AnyQuery): Promise<Row[]> {
    return this.#runInTime(this.#checks, (client) => runQuery(client, query));
  }

  /** The same for what nobody waits for, and what keeps nobody waiting. */
  queryInBackground(query: AnyQuery): Promise<Row[]> {
    if (this.#lost) return Promise.reject(unavailable());
    return this.#runTwice(this.#background, (client) => runQuery(client, query));
  }

  /** The same where all columns are wanted as texts: for answers, of which there are many. */
  queryTexts(query: Query): Promise<TextRow[]> {
    return this.#runInTime(this.#checks, (client) => runTextQuery(client, query));
  }

  /** The same for a list, which may take a while. */
  queryList(query: Query): Promise<TextRow[]> {
    return this.#runInTime(this.#lists, (client) => runTextQuery(client, query));
  }

  #runInTime<Result>(pool: ConnectionPool, run: Run<Result>): Promise<Result> {
    if (this.#lost) return Promise.reject(unavailable());
    return within(DEADLINE_MS, this.#runTwice(pool, run), () =>
      overloaded("The answer took too long to find. Try again in a moment."),
    );
  }

  /**
   * Runs a statement whose rows are fetched at the reader's pace. Postgres keeps the result, of one
   * moment, and no lock or snapshot: a slow reader holds up nobody but the few others with long lists.
   * @returns the first row, and what the others are fetched with
   */
  async openCursor(text: string, values: unknown[]): Promise<{ first: TextRow | undefined; cursor: Cursor }> {
    if (this.#lost) throw unavailable();
    const open = async (client: pg.PoolClient) => {
      await client.query({ ...DECLARE, text: `declare list no scroll cursor with hold for ${text}`, values });
      const cursor = new Cursor(client, this.#cursors);
      const [first] = await cursor.fetch(1);
      return { first, cursor };
    };
    return this.#runTwice(this.#cursors, open, true);
  }

  /** Whether the last that was heard of the database is good. */
  get isReachable(): boolean {
    return this.#lost === null;
  }

  /** How busy its connections are. */
  pools(): PoolState[] {
    const pools = { checks: this.#checks, lists: this.#lists, cursors: this.#cursors };
    return Object.entries(pools).map(([name, pool]) => ({ pool: name, ...pool.state }));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#pools.map((pool) => pool.close()));
  }

  get #pools(): ConnectionPool[] {
    return [this.#checks, this.#lists, this.#cursors, this.#background];
  }

  #createPool(max: number, timeoutMs: number, longestUseMs = timeoutMs + SILENCE_MS): ConnectionPool {
    return new ConnectionPool({
      connectionString: this.#url,
      application_name: "api",
      max,
      options: PLANNING,
      keepAlive: true,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      statement_timeout: timeoutMs,
      longestUseMs,
      onLoss: (error) => this.#log.debug(`Lost an idle database connection: ${error.message}`),
    });
  }

  /**
   * Runs a statement. A reorg, a switch of views or the end of a connection may come in between: then once more, and it
   * is through. All in one function: each that waits for another makes an answer wait, too.
   * @param isKept - whether the result has the connection from then on
   */
  async #runTwice<Result>(pool: ConnectionPool, run: Run<Result>, isKept = false): Promise<Result> {
    for (let isLast = false; ; isLast = true) {
      let client: pg.PoolClient | undefined;
      try {
        const taken = pool.take();
        client = taken instanceof Promise ? await taken : taken;
        const result = await run(client);
        if (!isKept) pool.give(client);
        return result;
      } catch (error) {
        // A half of what was to be kept may be left on it.
        if (client) pool.give(client, isKept || isBroken(error));
        if (isLast || !isWorthRetrying(error)) throw this.#explain(error);
      }
    }
  }

  /** What a failed statement means for whoever asked. */
  #explain(error: unknown): unknown {
    const code = codeOf(error);
    // Twice in each other's way, or views that change faster than plans.
    if (code?.startsWith("40") || code === CHANGED_UNDER_PLAN) {
      return overloaded("The index was changing. Try again in a moment.");
    }
    // No memory, disk or connection left: others may have what they need.
    if (code?.startsWith("53")) return overloaded("The database is full. Try again in a moment.");
    if (code === STATEMENT_TIMED_OUT) {
      return overloaded("The answer took too long to find. Try again in a moment; for a long list, use limit.");
    }
    if (code === UNDEFINED_TABLE || code === UNDEFINED_SCHEMA)
      return notIndexed("The tables that would tell are not there yet.");
    if (this.#lost) return unavailable();
    if (error instanceof Error && error.message === POOL_TIMED_OUT) {
      return overloaded("Too many answers are being looked up. Try again in a moment.");
    }
    // Without a code the connection failed; classes 08, 57 and 58: the server is going, or ill.
    if (error instanceof Error && (code === undefined || /^(08|57|58)/.test(code))) {
      this.#startProbing(error);
      return unavailable();
    }
    return error;
  }

  #startProbing(error: Error): void {
    if (this.#lost || this.#isClosed) return;
    this.#lost = error;
    this.#log.error(`${this.#name} is out of reach: ${error.message}`);
    // Their other end may be gone, too, without a word.
    for (const pool of this.#pools) pool.dropKept();
    this.#probe();
  }

  async #probe(): Promise<void> {
    while (!this.#isClosed && !(await this.#canConnect())) await sleep(PROBE_MS, undefined, { ref: false });
    if (this.#isClosed) return;
    this.#lost = null;
    this.#log.info(`${this.#name} answers again`);
  }

  async #canConnect(): Promise<boolean> {
    let client: pg.Client | undefined;
    try {
      client = new pg.Client({
        connectionString: this.#url,
        application_name: "api",
        connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
        query_timeout: CONNECT_TIMEOUT_MS,
      });
      client.on("error", () => {});
      await client.connect();
      await client.query("select 1");
      return true;
    } catch {
      return false;
    } finally {
      client?.end().catch(() => {});
    }
  }
}

/** No column is anything but a text. */
const AS_TEXTS = { getTypeParser: () => (text: string) => text };

/** All of a list is worked out first. */
const DECLARE = { query_timeout: CURSOR_TIMEOUT_MS + SILENCE_MS };

/** What was worked out already comes at once, or not at all. */
const FETCH = { rowMode: "array", query_timeout: STATEMENT_TIMEOUT_MS + SILENCE_MS, types: AS_TEXTS } as const;

/** A result that Postgres keeps until it has been fetched. */
export class Cursor {
  readonly #client: pg.PoolClient;
  readonly #connections: ConnectionPool;
  #isClosed = false;

  /** @param connections - where the connection is given back to */
  constructor(client: pg.PoolClient, connections: ConnectionPool) {
    this.#client = client;
    this.#connections = connections;
  }

  async fetch(count: number): Promise<TextRow[]> {
    const { rows } = await this.#client.query<(string | null)[]>({ ...FETCH, text: `fetch ${count} from list` });
    return rows;
  }

  /** Gives the result up. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    try {
      await this.#client.query({ ...FETCH, text: "close list" });
      this.#connections.give(this.#client);
    } catch {
      this.#connections.give(this.#client, true);
    }
  }
}

/** What the pool says when all its connections are in use, and not when the server does not answer. */
const POOL_TIMED_OUT = "timeout exceeded when trying to connect";

export const overloaded = (detail: string) =>
  new Problem("overloaded", detail, { headers: { "Retry-After": RETRY_AFTER_SECONDS } });

const unavailable = () =>
  new Problem("database-unavailable", "The database cannot be reached. Try again in a moment.", {
    headers: { "Retry-After": RETRY_AFTER_SECONDS },
  });
