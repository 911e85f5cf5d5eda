import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { LoadError } from "./load.ts";
import type { Stack } from "./stack.ts";

const LOCKED_MS = 5_000;
const LOCK_AGAIN_MS = 100;
const TERMINATIONS = 5;
const TERMINATE_EVERY_MS = 1_000;
const DOWN_MS = 2_000;

/** A temporary failure of a part. */
export type Fault = {
  name: string;
  /** Resolves when the cause is gone; the service may still be recovering. */
  run: (stack: Stack) => Promise<void>;
  /** Returns if the fault may cause an error. By default any. */
  concerns?: (error: LoadError, stack: Stack) => boolean;
};

export const ponderKilled: Fault = {
  name: "ponder-killed",
  run: async (stack) => stack.killPonder(),
};

export const indexerKilled: Fault = {
  name: "indexer-killed",
  run: async (stack) => {
    await stack.killIndexer();
    await sleep(DOWN_MS);
    await stack.startIndexer();
  },
};

/** One of the APIs is killed. Clients of the others notice nothing. */
export const apiKilled = (index: number): Fault => ({
  name: "api-killed",
  concerns: ({ port }, stack) => port === stack.ports[index],
  run: async (stack) => {
    await stack.killApi(index);
    await sleep(DOWN_MS);
    await stack.startApi(index);
  },
});

/** Another indexer builds another index, and takes over when it has caught up. */
export const reindexed: Fault = {
  name: "re-indexed",
  run: (stack) => stack.reindex(),
};

export const postgresRestart: Fault = {
  name: "postgres-restart",
  run: async ({ postgres }) => {
    await postgres.stop();
    await sleep(DOWN_MS);
    await postgres.start();
  },
};

export const postgresCrash: Fault = {
  name: "postgres-crash",
  run: async ({ postgres }) => {
    await postgres.crash();
    await postgres.start();
  },
};

/** Postgres ends all connections, repeatedly. */
export const connectionsLost: Fault = {
  name: "postgres-lost-connections",
  run: (stack) =>
    stack.withClient(async (client) => {
      for (let round = 0; round < TERMINATIONS; round++) {
        await client.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and pid <> pg_backend_pid()`,
        );
        await sleep(TERMINATE_EVERY_MS);
      }
    }),
};

/** SQLSTATEs of a lock timeout and a deadlock. */
const GIVEN_UP: ReadonlySet<string | undefined> = new Set(["55P03", "40P01"]);

/** Begins a transaction that locks the tables. Returns false if a lock timeout or a deadlock prevents it. */
const lockTables = async (client: pg.Client, schema: string): Promise<boolean> => {
  const tables = ["delegation_change", "delegation_v1", "delegation_v2", "indexed_block"];
  await client.query("begin");
  try {
    await client.query("set local lock_timeout = '500ms'");
    await client.query(`lock table ${tables.map((table) => `${schema}.${table}`)} in access exclusive mode`);
    return true;
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || !GIVEN_UP.has(error.code)) throw error;
    await client.query("rollback");
    return false;
  }
};

/** Another session locks the tables of every answer. */
export const lockHeld: Fault = {
  name: "postgres-lock-held",
  run: (stack) =>
    stack.withClient(async (client) => {
      const { rows } = await client.query("select schema from indexer.shard");
      while (!(await lockTables(client, rows[0].schema))) await sleep(LOCK_AGAIN_MS);
      await sleep(LOCKED_MS);
      await client.query("commit");
    }),
};

/** The RPC of one chain is down. */
export const rpcOutage = (chainId: number, ms: number): Fault => ({
  name: "rpc-outage",
  concerns: (error) => error.chainId === chainId,
  run: async (stack) => {
    const rpcs = stack.rpcs.filter((rpc) => rpc.chainId === chainId);
    for (const rpc of rpcs) rpc.isDown = true;
    await sleep(ms);
    for (const rpc of rpcs) rpc.isDown = false;
  },
});
