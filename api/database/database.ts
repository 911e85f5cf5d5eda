import { DrizzleQueryError, fillPlaceholders } from "drizzle-orm";
import { drizzle, type NodePgDatabase } from "drizzle-orm/node-postgres";
import type pg from "pg";
import type { Logger } from "pino";
import { CircuitBreaker } from "./circuit-breaker.ts";
import { withDeadline } from "./deadline.ts";
import { createPools, POOLS, type PoolName } from "./pools.ts";
import { explainSqlState, isConnectionFailure, isPoolTimeout, isRetryable, isTimeout } from "./postgres-errors.ts";
import { databaseUnavailable, overloaded } from "./problems.ts";
import { SqlCursor } from "./sql-cursor.ts";
import type { Statement } from "./statement.ts";

/** Time for a statement with its retry, for a request that waits. */
const DEADLINE_MS = 1_400;
/** Probe the database if a statement takes longer. Nearly all take a few milliseconds. */
const SUSPICION_MS = 300;

type PoolState = { pool: PoolName; busy: number; idle: number; waiting: number; limit: number };

/** Runs statements over bounded pools. While the circuit breaker is open, all of them fail at once. */
export class Database {
  readonly #pools: Record<PoolName, pg.Pool>;
  readonly #breaker: CircuitBreaker;
  /** Builds queries, and prepares the statements that run() runs. */
  readonly db: NodePgDatabase;

  /** @param name - its name in the log */
  constructor(url: string, log: Logger, name = "The database") {
    this.#pools = createPools(url, log);
    this.#breaker = new CircuitBreaker(url, log, name);
    this.db = drizzle(this.#pools.checks, { casing: "snake_case" });
  }

  /** Runs a statement that was prepared with `db`. */
  run<Result>(execute: () => Promise<Result>): Promise<Result> {
    const timer = setTimeout(() => this.#breaker.suspect(), SUSPICION_MS);
    const running = withDeadline(DEADLINE_MS, this.#runWithRetry(execute), () =>
      this.#breaker.isOpen
        ? databaseUnavailable()
        : overloaded("The answer took too long to find. Try again in a moment."),
    );
    return running.finally(() => clearTimeout(timer));
  }

  /** Runs a compiled statement. In the background it has no deadline: no request waits for it. */
  read<Row>(
    pool: Exclude<PoolName, "cursors">,
    { name, text, params }: Statement<Row>,
    values: Record<string, unknown>,
  ): Promise<Row[]> {
    const execute = async () => {
      const { rows } = await this.#pools[pool].query({ name, text, values: fillPlaceholders(params, values) });
      return rows as Row[];
    };
    return pool === "background" ? this.#runWithRetry(execute) : this.run(execute);
  }

  /**
   * Runs a statement whose rows are fetched at the reader's pace. Postgres keeps the result, of one moment,
   * and holds no lock or snapshot: a slow reader blocks only the few others with long lists.
   */
  openCursor<Row>(
    { text, params }: Statement<Row>,
    values: Record<string, unknown>,
  ): Promise<{ first: Row | undefined; cursor: SqlCursor<Row> }> {
    return this.#runWithRetry(async () => {
      const cursor = new SqlCursor<Row>(await this.#pools.cursors.connect());
      const first = await cursor.open(text, fillPlaceholders(params, values));
      return { first, cursor };
    });
  }

  get isReachable(): boolean {
    return !this.#breaker.isOpen;
  }

  poolStates(): PoolState[] {
    return (["checks", "lists", "bulk", "cursors", "changes"] as const).map((pool) => {
      const { totalCount, idleCount, waitingCount } = this.#pools[pool];
      const { max: limit } = POOLS[pool];
      return { pool, busy: totalCount - idleCount, idle: idleCount, waiting: waitingCount, limit };
    });
  }

  async close(): Promise<void> {
    this.#breaker.stop();
    await Promise.all(Object.values(this.#pools).map((pool) => pool.end()));
  }

  /** Retries once: a reorg, a switch of views or a closed connection may interrupt a statement. */
  async #runWithRetry<Result>(execute: () => Promise<Result>): Promise<Result> {
    if (this.#breaker.isOpen) throw databaseUnavailable();
    for (let isLast = false; ; isLast = true) {
      try {
        return await execute();
      } catch (thrown) {
        // drizzle's own error shows the values in its message: they are private.
        const error = thrown instanceof DrizzleQueryError ? thrown.cause : thrown;
        if (isLast || !isRetryable(error)) throw this.#explain(error);
      }
    }
  }

  /** Turns a failure into a problem where one fits. A lost connection opens the circuit breaker. */
  #explain(error: unknown): unknown {
    const problem = explainSqlState(error);
    if (problem) return problem;
    if (this.#breaker.isOpen) return databaseUnavailable();
    if (isPoolTimeout(error)) return overloaded("Too many answers are being looked up. Try again in a moment.");
    if (!isConnectionFailure(error)) return error;
    if (isTimeout(error)) {
      this.#breaker.suspect();
      return overloaded("The database did not answer in time. Try again in a moment.");
    }
    this.#breaker.open(error);
    return databaseUnavailable();
  }
}
