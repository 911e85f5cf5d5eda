import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Logger } from "pino";
import { notIndexed, Problem } from "./problem.ts";

/** Enough for batches of every kind at once; a request never has a connection of its own. */
const CONNECTIONS = 10;
/** Long lists that are being read at the same time. */
const CURSORS = 4;

/** When Postgres gives a statement up, by itself. */
const STATEMENT_TIMEOUT_MS = 1_200;
const CURSOR_TIMEOUT_MS = 20_000;
/** A server that has not even done that by then does not answer any more. */
const SILENCE_MS = 200;
/** How long to wait for a connection, a new one or one that others use. */
const CONNECT_TIMEOUT_MS = 1_500;
/** Whoever asked is told something by then. */
const DEADLINE_MS = 1_600;
const PROBE_MS = 500;

const RETRY_AFTER_SECONDS = "2";

/**
 * Each statement has one plan, whatever the values: an answer costs the same for every wallet. Without
 * statistics, right after a backfill, Postgres might prefer to scan a table.
 */
export const PLANNING = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off";

/** What Postgres says when two transactions wait for each other, or when a view was changed under a prepared statement. */
const DEADLOCK = "40P01";
const CHANGED_UNDER_PLAN = "0A000";
const STATEMENT_TIMED_OUT = "57014";
const UNDEFINED_TABLE = "42P01";
const UNDEFINED_SCHEMA = "3F000";

type Query = { name: string; text: string; values: unknown[] };
type Row = readonly unknown[];

const codeOf = (error: unknown): string | undefined => (error instanceof pg.DatabaseError ? error.code : undefined);

/** Statements over a bounded pool. While the database is out of reach, all of them fail at once. */
export class Database {
  readonly #url: string;
  readonly #log: Logger;
  readonly #pool: pg.Pool;
  readonly #cursors: pg.Pool;
  #lost: Error | null = null;
  #isClosed = false;

  constructor(url: string, log: Logger) {
    this.#url = url;
    this.#log = log;
    this.#pool = this.#createPool(CONNECTIONS, STATEMENT_TIMEOUT_MS);
    this.#cursors = this.#createPool(CURSORS, CURSOR_TIMEOUT_MS);
  }

  /** Runs a prepared statement. The rows are arrays; numbers in them are digits. */
  async query(query: Query): Promise<Row[]> {
    if (this.#lost) throw unavailable();
    return within(DEADLINE_MS, this.#runTwice(query));
  }

  /**
   * Runs a statement whose rows are fetched at the reader's pace. Postgres keeps the result, of one
   * moment, and no lock or snapshot: a slow reader holds up nobody but the few others with long lists.
   */
  async openCursor(text: string, values: unknown[]): Promise<Cursor> {
    if (this.#lost) throw unavailable();
    let client: pg.PoolClient | undefined;
    try {
      client = await this.#cursors.connect();
      await client.query(`declare list no scroll cursor with hold for ${text}`, values);
      return new Cursor(client);
    } catch (error) {
      client?.release(true);
      throw this.#explain(error);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.#pool.end(), this.#cursors.end()]);
  }

  #createPool(max: number, statementTimeoutMs: number): pg.Pool {
    const pool = new pg.Pool({
      connectionString: this.#url,
      application_name: "api",
      max,
      options: PLANNING,
      keepAlive: true,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      statement_timeout: statementTimeoutMs,
      query_timeout: statementTimeoutMs + SILENCE_MS,
    });
    // A connection that fails while idle is replaced when one is needed.
    pool.on("error", (error) => this.#log.debug({ err: error }, "Lost an idle database connection"));
    // One that fails while it is in use, between two statements: the next one finds out. Without a listener
    // the process would end.
    pool.on("connect", (client) => client.on("error", () => {}));
    return pool;
  }

  async #runTwice(query: Query): Promise<Row[]> {
    try {
      return await this.#run(query);
    } catch (error) {
      // A reorg or a switch of views came in between: once more, and it is through.
      if (![DEADLOCK, CHANGED_UNDER_PLAN].includes(codeOf(error) ?? "")) throw this.#explain(error);
      return this.#run(query).catch((error) => {
        throw this.#explain(error);
      });
    }
  }

  async #run(query: Query): Promise<Row[]> {
    const client = await this.#pool.connect();
    try {
      const { rows } = await client.query<Row[]>({ ...query, rowMode: "array" });
      client.release();
      return rows;
    } catch (error) {
      // A plan that no longer fits stays with its connection.
      const code = codeOf(error);
      client.release(code === undefined || code === CHANGED_UNDER_PLAN);
      throw error;
    }
  }

  /** What a failed statement means for whoever asked. */
  #explain(error: unknown): unknown {
    const code = codeOf(error);
    if (code === DEADLOCK) return overloaded("Others were in the way of the answer. Try again in a moment.");
    if (code === STATEMENT_TIMED_OUT) {
      return overloaded("The answer took too long to find. Try again in a moment; for a long list, use limit.");
    }
    if (code === UNDEFINED_TABLE || code === UNDEFINED_SCHEMA) return notIndexed("There is no index yet.");
    if (this.#lost) return unavailable();
    if (error instanceof Error && error.message === POOL_TIMED_OUT) {
      return overloaded("Too many answers are being looked up. Try again in a moment.");
    }
    // Without a code the connection failed; classes 08, 53, 57 and 58: the server is going, full or ill.
    if (error instanceof Error && (code === undefined || /^(08|53|57|58)/.test(code))) {
      this.#startProbing(error);
      return unavailable();
    }
    return error;
  }

  #startProbing(error: Error): void {
    if (this.#lost || this.#isClosed) return;
    this.#lost = error;
    this.#log.error({ err: error }, "The database is out of reach");
    const probe = async () => {
      while (!this.#isClosed) {
        await sleep(PROBE_MS, undefined, { ref: false });
        if (await this.#isReachable()) {
          this.#lost = null;
          this.#log.info("The database answers again");
          return;
        }
      }
    };
    probe();
  }

  async #isReachable(): Promise<boolean> {
    const client = new pg.Client({
      connectionString: this.#url,
      application_name: "api",
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: CONNECT_TIMEOUT_MS,
    });
    client.on("error", () => {});
    try {
      await client.connect();
      await client.query("select 1");
      return true;
    } catch {
      return false;
    } finally {
      client.end().catch(() => {});
    }
  }
}

/** A result that Postgres keeps until it has been fetched. */
export class Cursor {
  readonly #client: pg.PoolClient;
  #isClosed = false;

  constructor(client: pg.PoolClient) {
    this.#client = client;
  }

  async fetch(count: number): Promise<Row[]> {
    const { rows } = await this.#client.query<Row[]>({ text: `fetch ${count} from list`, rowMode: "array" });
    return rows;
  }

  /** Gives the result up. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    try {
      await this.#client.query("close list");
      this.#client.release();
    } catch {
      this.#client.release(true);
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

const within = <T>(ms: number, promise: Promise<T>): Promise<T> => {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(overloaded("The answer took too long to find. Try again in a moment.")), ms);
  });
  return Promise.race([promise, deadline]).finally(() => clearTimeout(timer));
};
