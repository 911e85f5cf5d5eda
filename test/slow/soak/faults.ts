import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { LoadError } from "./load.ts";
import type { Service } from "./service.ts";

const LOCKED_MS = 5_000;
const LOCK_AGAIN_MS = 100;
const TERMINATIONS = 5;
const TERMINATE_EVERY_MS = 1_000;
const DOWN_MS = 2_000;

/** A temporary failure of a part. */
export type Fault = {
  name: string;
  /** Returns if the fault may cause an error. */
  concerns: (error: LoadError, service: Service) => boolean;
  /** Resolves when the cause is gone; the service may still be recovering. */
  run: (service: Service) => Promise<void>;
};

const everybody = () => true;

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
  concerns: everybody,
  run: (service) =>
    service.withClient(async (client) => {
      const { rows } = await client.query("select schema from indexer.shard");
      while (!(await lockTables(client, rows[0].schema))) await sleep(LOCK_AGAIN_MS);
      await sleep(LOCKED_MS);
      await client.query("commit");
    }),
};

/** Postgres ends all connections, repeatedly. */
export const connectionsLost: Fault = {
  name: "postgres-lost-connections",
  concerns: everybody,
  run: (service) =>
    service.withClient(async (client) => {
      for (let round = 0; round < TERMINATIONS; round++) {
        await client.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and pid <> pg_backend_pid()`,
        );
        await sleep(TERMINATE_EVERY_MS);
      }
    }),
};

export const postgresRestart: Fault = {
  name: "postgres-restart",
  concerns: everybody,
  run: async (service) => {
    await service.stopPostgres("in order");
    await sleep(DOWN_MS);
    await service.startPostgres();
  },
};

export const postgresCrash: Fault = {
  name: "postgres-crash",
  concerns: everybody,
  run: async (service) => {
    await service.stopPostgres("at once");
    await service.startPostgres();
  },
};

/** The RPC of one chain is down for longer than its index counts as fresh. */
export const rpcOutage = (chainId: number, ms: number): Fault => ({
  name: "rpc-outage",
  concerns: (error) => error.chainId === chainId,
  run: async (service) => {
    const gate = service.gates.get(chainId);
    gate?.close();
    await sleep(ms);
    gate?.open();
  },
});

export const ponderKilled: Fault = {
  name: "ponder-killed",
  concerns: everybody,
  run: async (service) => {
    service.killPonder();
  },
};

export const indexerKilled: Fault = {
  name: "indexer-killed",
  concerns: everybody,
  run: async (service) => {
    await service.killIndexer();
    await sleep(DOWN_MS);
    await service.startIndexer();
  },
};

/** One of several APIs is killed. Clients of the others notice nothing. */
export const apiKilled = (index: number): Fault => ({
  name: "api-killed",
  concerns: ({ port }, service) => port === service.ports[index],
  run: async (service) => {
    const api = service.apis[index];
    if (!api) throw new Error(`There is no API ${index}.`);
    process.kill(api.pid, "SIGKILL");
    await sleep(DOWN_MS);
    await service.startApi(index);
  },
});
