import { setTimeout as sleep } from "node:timers/promises";
import { DrizzleQueryError, fillPlaceholders, type SQLWrapper } from "drizzle-orm";
import { drizzle, type NodePgDatabase } from "drizzle-orm/node-postgres";
import { PgDialect } from "drizzle-orm/pg-core";
import pg from "pg";
import type { Logger } from "pino";
import { withDeadline } from "./deadline.ts";
import { notIndexed, Problem } from "./problem.ts";

/** What statements are run with. Each kind has connections of its own, and keeps no other waiting. */
const POOLS = {
  /** They share statements: a few are enough for any number of requests. */
  checks: { max: 8, timeoutMs: 1_000 },
  lists: { max: 4, timeoutMs: 1_000 },
  /** Long lists, each of which has one while it is read. */
  cursors: { max: 4, timeoutMs: 20_000 },
  /** Digests and insights, which no request waits for. */
  background: { max: 1, timeoutMs: 10_000 },
} as const;

type PoolName = keyof typeof POOLS;

/** A server that has not given up a statement by then, as it was told to, does not answer any more. */
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
/** What a replica says when it has to go on, to where a statement could not see its rows any more. */
const CONFLICT_WITH_RECOVERY = "40001";
const CHANGED_UNDER_PLAN = "0A000";
/** When it ends a connection. */
const SHUT_DOWN = "57P01";
const STATEMENT_TIMED_OUT = "57014";
const UNDEFINED_TABLE = "42P01";
const UNDEFINED_SCHEMA = "3F000";

export type PoolState = { pool: string; busy: number; idle: number; waiting: number; limit: number };

/** A statement that drizzle has written, as Postgres gets it: written once, and prepared once on each connection. */
export type Statement<Row> = { name: string; text: string; params: unknown[]; row?: Row };

/** @typeParam Row - a row as pg returns it: drizzle does not map the rows of a compiled statement */
export const compile = <Row>(name: string, query: SQLWrapper): Statement<Row> => {
  const { sql, params } = dialect.sqlToQuery(query.getSQL());
  return { name, text: sql, params };
};

const dialect = new PgDialect({ casing: "snake_case" });

const codeOf = (error: unknown): string | undefined => (error instanceof pg.DatabaseError ? error.code : undefined);

/** Whether a statement failed for a reason that the next one will not meet. */
const isWorthRetrying = (error: unknown): boolean => {
  const code = codeOf(error);
  if (code !== undefined) return [DEADLOCK, CONFLICT_WITH_RECOVERY, CHANGED_UNDER_PLAN, SHUT_DOWN].includes(code);
  return error instanceof Error && /connection terminated unexpectedly|ECONNRESET|EPIPE/i.test(error.message);
};

/** Statements over bounded pools. While the database is out of reach, all of them fail at once. */
export class Database {
  readonly #url: string;
  readonly #log: Logger;
  readonly #name: string;
  readonly #pools: Record<PoolName, pg.Pool>;
  /** To write statements with, and to prepare those that run() runs. */
  readonly db: NodePgDatabase;
  #lost: Error | null = null;
  #isClosed = false;

  /** @param name - what the log calls it */
  constructor(url: string, log: Logger, name = "The database") {
    this.#url = url;
    this.#log = log;
    this.#name = name;
    const { checks, lists, cursors, background } = POOLS;
    this.#pools = {
      checks: this.#createPool(checks),
      lists: this.#createPool(lists),
      cursors: this.#createPool(cursors),
      background: this.#createPool(background),
    };
    this.db = drizzle(this.#pools.checks, { casing: "snake_case" });
  }

  /** Runs a statement that was prepared with `db`. */
  run<Result>(execute: () => Promise<Result>): Promise<Result> {
    return this.#inTime(execute);
  }

  /** Runs a compiled statement. In the background it may take its time: nobody waits for it. */
  read<Row>(
    pool: "checks" | "lists" | "background",
    { name, text, params }: Statement<Row>,
    values: Record<string, unknown>,
  ): Promise<Row[]> {
    const execute = async () => {
      const { rows } = await this.#pools[pool].query({ name, text, values: fillPlaceholders(params, values) });
      return rows as Row[];
    };
    return pool === "background" ? this.#runTwice(execute) : this.#inTime(execute);
  }

  #inTime<Result>(execute: () => Promise<Result>): Promise<Result> {
    return withDeadline(DEADLINE_MS, this.#runTwice(execute), () =>
      overloaded("The answer took too long to find. Try again in a moment."),
    );
  }

  /**
   * Runs a statement whose rows are fetched at the reader's pace. Postgres keeps the result, of one
   * moment, and no lock or snapshot: a slow reader holds up nobody but the few others with long lists.
   * @returns the first row, and what the others are fetched with
   */
  async openCursor<Row>(
    { text, params }: Statement<Row>,
    values: Record<string, unknown>,
  ): Promise<{ first: Row | undefined; cursor: Cursor<Row> }> {
    return this.#runTwice(async () => {
      const cursor = new Cursor<Row>(await this.#pools.cursors.connect());
      const first = await cursor.open(text, fillPlaceholders(params, values));
      return { first, cursor };
    });
  }

  /** Whether the last that was heard of the database is good. */
  get isReachable(): boolean {
    return this.#lost === null;
  }

  /** How busy its connections are. */
  pools(): PoolState[] {
    return (["checks", "lists", "cursors"] as const).map((pool) => {
      const { totalCount, idleCount, waitingCount } = this.#pools[pool];
      const { max: limit } = POOLS[pool];
      return { pool, busy: totalCount - idleCount, idle: idleCount, waiting: waitingCount, limit };
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(Object.values(this.#pools).map((pool) => pool.end()));
  }

  #createPool({ max, timeoutMs }: { max: number; timeoutMs: number }): pg.Pool {
    const pool = new pg.Pool({
      connectionString: this.#url,
      application_name: "api",
      max,
      options: PLANNING,
      keepAlive: true,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      statement_timeout: timeoutMs,
      query_timeout: timeoutMs + SILENCE_MS,
    });
    // Without a listener the process would end.
    pool.on("error", (error) => this.#log.debug(`Lost an idle database connection: ${error.message}`));
    return pool;
  }

  /** Runs a statement. A reorg, a switch of views or the end of a connection may come in between: then once more. */
  async #runTwice<Result>(execute: () => Promise<Result>): Promise<Result> {
    if (this.#lost) throw unavailable();
    for (let isLast = false; ; isLast = true) {
      try {
        return await execute();
      } catch (thrown) {
        // drizzle's own error has the values in its message, which are nobody's business.
        const error = thrown instanceof DrizzleQueryError ? thrown.cause : thrown;
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

/** What was worked out already comes at once, or not at all. */
const FETCH = { query_timeout: POOLS.lists.timeoutMs + SILENCE_MS };

/** A result that Postgres keeps until it has been fetched. */
export class Cursor<Row> {
  readonly #client: pg.PoolClient;
  #isReleased = false;

  constructor(client: pg.PoolClient) {
    this.#client = client;
    // Without a listener the process would end.
    client.on("error", ignore);
  }

  /** @returns the first row */
  async open(text: string, values: unknown[]): Promise<Row | undefined> {
    try {
      await this.#client.query(`declare list no scroll cursor with hold for ${text}`, values);
      const [first] = await this.fetch(1);
      return first;
    } catch (error) {
      this.#release(true);
      throw error;
    }
  }

  async fetch(count: number): Promise<Row[]> {
    const { rows } = await this.#client.query({ ...FETCH, text: `fetch ${count} from list` });
    return rows as Row[];
  }

  /** Gives the result up. */
  async close(): Promise<void> {
    if (this.#isReleased) return;
    const closing = this.#client.query({ ...FETCH, text: "close list" });
    this.#isReleased = true;
    await closing.then(
      () => this.#release(false),
      () => this.#release(true),
    );
  }

  #release(isBroken: boolean): void {
    this.#isReleased = true;
    this.#client.off("error", ignore);
    this.#client.release(isBroken);
  }
}

const ignore = () => {};

/** Makes something once for each database, and for each of the names that it is asked for with. */
export const preparedFor = <Made, Names extends string[] = []>(
  make: (database: Database, ...names: Names) => Made,
): ((database: Database, ...names: Names) => Made) => {
  const known = new WeakMap<Database, Map<string, Made>>();
  return (database, ...names) => {
    let ofDatabase = known.get(database);
    if (!ofDatabase) {
      ofDatabase = new Map();
      known.set(database, ofDatabase);
    }
    const name = names.join(" ");
    let made = ofDatabase.get(name);
    if (made === undefined) {
      made = make(database, ...names);
      ofDatabase.set(name, made);
    }
    return made;
  };
};

/** What the pool says when all its connections are in use, and not when the server does not answer. */
const POOL_TIMED_OUT = "timeout exceeded when trying to connect";

export const overloaded = (detail: string) =>
  new Problem("overloaded", detail, { headers: { "Retry-After": RETRY_AFTER_SECONDS } });

const unavailable = () =>
  new Problem("database-unavailable", "The database cannot be reached. Try again in a moment.", {
    headers: { "Retry-After": RETRY_AFTER_SECONDS },
  });
