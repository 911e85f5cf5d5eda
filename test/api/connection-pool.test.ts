import { once } from "node:events";
import { type AddressInfo, connect as connectTo, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { afterEach, expect, test } from "vitest";
import { ConnectionPool, type PoolOptions } from "../../api/connection-pool.ts";
import { within } from "../../api/within.ts";
import { connect, createDatabase, until } from "../support/setup.ts";

// Which connection a statement gets, and what becomes of one that nobody needs, that is lost, or that is silent.

const pools: ConnectionPool[] = [];
const losses: string[] = [];

const open = (connectionString: string, options: Partial<PoolOptions> = {}) => {
  const onLoss = (error: Error) => losses.push(error.message);
  const pool = new ConnectionPool({ connectionString, max: 2, longestUseMs: 60_000, onLoss, ...options });
  pools.push(pool);
  return pool;
};

afterEach(async () => {
  losses.length = 0;
  await Promise.all(pools.splice(0).map((pool) => pool.close()));
});

const backendOf = async (client: pg.PoolClient): Promise<number> =>
  (await client.query("select pg_backend_pid() as pid")).rows[0].pid;

/** Whether Postgres still has it. */
const isOpen = async (observer: pg.Client, backend: number): Promise<boolean> => {
  const { rows } = await observer.query("select from pg_stat_activity where pid = $1", [backend]);
  return rows.length > 0;
};

test("the connection that was used last is used again, and at once", async () => {
  const pool = open(await createDatabase());
  const first = await pool.take();
  const second = await pool.take();
  expect(pool.state).toEqual({ busy: 2, idle: 0, waiting: 0, limit: 2 });
  pool.give(first);
  pool.give(second);
  expect(pool.state).toEqual({ busy: 0, idle: 2, waiting: 0, limit: 2 });
  expect(pool.take()).toBe(second);
  expect(pool.take()).toBe(first);
  pool.give(first);
  pool.give(second);
});

test("whoever waits gets the next that is given back", async () => {
  const pool = open(await createDatabase());
  const [first, second] = [await pool.take(), await pool.take()];
  const waiting = pool.take();
  expect(pool.state.waiting).toBe(1);
  pool.give(second);
  expect(await waiting).toBe(second);
  expect(pool.state).toEqual({ busy: 2, idle: 0, waiting: 0, limit: 2 });
  pool.give(first);
  pool.give(second);
});

test("with no connection to be had, whoever waits is told", async () => {
  const pool = open(await createDatabase(), { max: 1, connectionTimeoutMillis: 300 });
  const only = await pool.take();
  await expect(pool.take()).rejects.toThrow("timeout exceeded when trying to connect");
  pool.give(only);
  expect(pool.take()).toBe(only);
  pool.give(only);
});

test("one that nobody needs is closed after a while; those in use stay", async () => {
  const databaseUrl = await createDatabase();
  const observer = await connect(databaseUrl);
  const pool = open(databaseUrl);
  const [needed, spare] = [await pool.take(), await pool.take()];
  const [neededBackend, spareBackend] = [await backendOf(needed), await backendOf(spare)];
  pool.give(spare);
  pool.give(needed);
  const use = setInterval(() => {
    const client = pool.take();
    if (client instanceof Promise) throw new Error("None is at hand.");
    expect(client).toBe(needed);
    pool.give(client);
  }, 500);
  try {
    await until("the spare one is closed", async () => !(await isOpen(observer, spareBackend)), 30);
    expect(await isOpen(observer, neededBackend)).toBe(true);
    expect(pool.state).toEqual({ busy: 0, idle: 1, waiting: 0, limit: 2 });
  } finally {
    clearInterval(use);
  }
});

test("one that is lost while nobody uses it is nobody's trouble", async () => {
  const databaseUrl = await createDatabase();
  const pool = open(databaseUrl);
  const lost = await pool.take();
  const backend = await backendOf(lost);
  pool.give(lost);
  const other = await connect(databaseUrl);
  await other.query("select pg_terminate_backend($1)", [backend]);
  await until("the loss is noticed", async () => losses.length > 0, 5);
  expect(losses).toEqual(["terminating connection due to administrator command"]);
  const next = await pool.take();
  expect(await backendOf(next)).not.toBe(backend);
  pool.give(next);
  expect(pool.state).toEqual({ busy: 0, idle: 1, waiting: 0, limit: 2 });
});

test("one that is lost while it is in use is not used again, whoever gives it back", async () => {
  const databaseUrl = await createDatabase();
  const pool = open(databaseUrl);
  const lost = await pool.take();
  const backend = await backendOf(lost);
  const other = await connect(databaseUrl);
  const failed = once(lost, "error");
  await other.query("select pg_terminate_backend($1)", [backend]);
  await failed;
  pool.give(lost);
  const next = await pool.take();
  expect(await backendOf(next)).not.toBe(backend);
  pool.give(next);
  expect(losses).toEqual([]);
});

test("whoever waits gets another when one is given back broken", async () => {
  const pool = open(await createDatabase(), { max: 1 });
  const broken = await pool.take();
  const waiting = pool.take();
  pool.give(broken, true);
  const next = await waiting;
  expect(next).not.toBe(broken);
  expect(await backendOf(next)).toBeGreaterThan(0);
  pool.give(next);
});

test("it is closed when those who use it are through", async () => {
  const pool = open(await createDatabase(), { max: 1 });
  const busy = await pool.take();
  const running = busy.query("select pg_sleep(0.5)");
  pools.splice(pools.indexOf(pool), 1);
  const closed = pool.close();
  await running;
  pool.give(busy);
  await closed;
  expect(pool.state).toEqual({ busy: 0, idle: 0, waiting: 0, limit: 1 });
});

test("one that is given back broken is not used again", async () => {
  const databaseUrl = await createDatabase();
  const pool = open(databaseUrl);
  const broken = await pool.take();
  const backend = await backendOf(broken);
  pool.give(broken, true);
  const next = await pool.take();
  expect(await backendOf(next)).not.toBe(backend);
  pool.give(next);
});

const portOf = (server: Server): number => (server.address() as AddressInfo).port;

/** A way to a database over which nothing comes any more when it is told so, without a word. */
const openWay = async (databaseUrl: string) => {
  const url = new URL(databaseUrl);
  const port = Number(url.port);
  const ends: Socket[] = [];
  const server = createServer((near) => {
    const far = connectTo(port, url.hostname);
    near.pipe(far).pipe(near);
    for (const end of [near, far]) end.on("error", () => {});
    ends.push(near, far);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  url.port = String(portOf(server));
  return {
    url: url.href,
    fallSilent: () => {
      for (const end of ends) end.unpipe().pause();
    },
    close: () => {
      for (const end of ends) end.destroy();
      server.close();
    },
  };
};

test("one over which no answer comes is cut off, and its statement fails; one that is not in use stays", async () => {
  const way = await openWay(await createDatabase());
  const pool = open(way.url, { longestUseMs: 500 });
  const [silent, unused] = [await pool.take(), await pool.take()];
  pool.give(unused);
  way.fallSilent();
  const startedAt = performance.now();
  await expect(silent.query("select 1")).rejects.toThrow("it does not answer");
  const ms = performance.now() - startedAt;
  expect(ms).toBeGreaterThan(400);
  expect(ms).toBeLessThan(1_500);
  pool.give(silent, true);
  expect(pool.state).toEqual({ busy: 0, idle: 1, waiting: 0, limit: 2 });
  pool.dropKept();
  expect(pool.state.idle).toBe(0);
  way.close();
});

test("what is slow, but not too slow, is not cut off, however often it is used", async () => {
  const pool = open(await createDatabase(), { longestUseMs: 500 });
  for (let times = 0; times < 4; times++) {
    const client = await pool.take();
    await client.query("select pg_sleep(0.3)");
    pool.give(client);
  }
  expect(losses).toEqual([]);
});

test("what takes too long is given up, and what does not is not", async () => {
  const tooLate = () => new Error("too late");
  const startedAt = performance.now();
  await expect(within(100, sleep(5_000, "late", { ref: false }), tooLate)).rejects.toThrow("too late");
  expect(performance.now() - startedAt).toBeLessThan(1_000);
  expect(await within(1_000, sleep(50, "in time"), tooLate)).toBe("in time");
  await expect(within(1_000, Promise.reject(new Error("its own")), tooLate)).rejects.toThrow("its own");
});

test("what has arrived while the process was busy is not too late", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const near = connectTo(portOf(server), "127.0.0.1");
  const [far] = await once(server, "connection");
  const arrived = within(50, once(far, "data"), () => new Error("too late"));
  near.write("in time");
  const busyUntil = performance.now() + 200;
  while (performance.now() < busyUntil);
  expect(String(await arrived)).toBe("in time");
  near.destroy();
  server.close();
});
