import pg from "pg";
import type { Logger } from "pino";

/** One pool for each kind of statement: a slow kind never blocks another. */
export const POOLS = {
  /** Checks share statements: a few connections serve any number of requests. */
  checks: { max: 8, timeoutMs: 1_000 },
  lists: { max: 4, timeoutMs: 1_000 },
  /** Bodies with many checks: few at a time, so that they leave most of Postgres to single checks. */
  bulk: { max: 2, timeoutMs: 1_000 },
  /** Long lists. Each holds a connection while it is read. */
  cursors: { max: 4, timeoutMs: 20_000 },
  /**
   * Live changes. Readers who are up to date, those who catch up, and webhooks: each kind reads once at a time, with a
   * statement for each shard.
   */
  changes: { max: 2, timeoutMs: 1_000 },
  /** Digests and insights, which no request waits for. */
  background: { max: 1, timeoutMs: 10_000 },
} as const;

export type PoolName = keyof typeof POOLS;

/** Time for Postgres to cancel a statement after its timeout: on a busy host it may get no processor for a while. */
const CANCEL_GRACE_MS = 1_000;
/** Time to get a connection, a new one or an idle one of a busy pool. */
export const CONNECT_TIMEOUT_MS = 1_300;

/**
 * One plan for each statement, whatever the values: an answer costs the same for every wallet. Without
 * statistics, right after a backfill, Postgres might prefer to scan a table. A bitmap scan would read and sort all rows
 * of a wallet for its first page.
 */
export const PLANNER_OPTIONS =
  "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off -c jit=off";

export const queryTimeoutMs = (pool: PoolName): number => POOLS[pool].timeoutMs + CANCEL_GRACE_MS;

export const createPools = (url: string, log: Logger): Record<PoolName, pg.Pool> => {
  const createPool = (name: PoolName) => {
    const pool = new pg.Pool({
      connectionString: url,
      application_name: "api",
      max: POOLS[name].max,
      options: PLANNER_OPTIONS,
      keepAlive: true,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      // Keep idle connections: a new one would prepare every statement again, for the first request after a quiet moment.
      idleTimeoutMillis: 0,
      statement_timeout: POOLS[name].timeoutMs,
      query_timeout: queryTimeoutMs(name),
    });
    // Without a listener the process would end.
    pool.on("error", (error) => log.debug(`Lost an idle database connection: ${error.message}`));
    return pool;
  };
  return {
    checks: createPool("checks"),
    lists: createPool("lists"),
    bulk: createPool("bulk"),
    cursors: createPool("cursors"),
    changes: createPool("changes"),
    background: createPool("background"),
  };
};
