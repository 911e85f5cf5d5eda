import { once } from "node:events";
import { type AddressInfo, connect as connectTo, createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { ConnectionPool, type PoolOptions } from "../../api/connection-pool.ts";
import { within } from "../../api/within.ts";
import { connect, createDatabase, until } from "../support/setup.ts";

const pools: ConnectionPool[] = [];
const losses: string[] = [];

const open = async (options: Partial<PoolOptions> = {}) => {
  const connectionString = options.connectionString ?? (await createDatabase());
  const onLoss = (error: Error) => losses.push(error.message);
  const pool = new ConnectionPool({ max: 2, longestUseMs: 60_000, onLoss, ...options, connectionString });
  pools.push(pool);
  return { pool, connectionString };
};

afterEach(async () => {
  losses.length = 0;
  await Promise.all(pools.splice(0).map((pool) => pool.close()));
});

const backendOf = async (client: pg.PoolClient): Promise<number> =>
  (await client.query("select pg_backend_pid() as pid")).rows[0].pid;

/** Those of some backends that Postgres still has. */
const openOf = async (observer: pg.Client, backends: number[]): Promise<number[]> => {
  const { rows } = await observer.query("select pid from pg_stat_activity where pid = any ($1)", [backends]);
  return rows.map(({ pid }) => pid);
};

test("take() gives the connection that was used last, at once", async () => {
  const { pool } = await open();
  const [first, second] = [await pool.take(), await pool.take()];
  expect(pool.state).toEqual({ busy: 2, idle: 0, waiting: 0, limit: 2 });
  pool.give(first);
  pool.give(second);
  expect(pool.state).toEqual({ busy: 0, idle: 2, waiting: 0, limit: 2 });
  expect(pool.take()).toBe(second);
  expect(pool.take()).toBe(first);
  pool.give(first);
  pool.give(second);
});

test("take() waits for the next connection that is given back, or for another if that is broken", async () => {
  const { pool } = await open({ max: 1 });
  const first = await pool.take();
  const [second, third] = [pool.take(), pool.take()];
  expect(pool.state).toEqual({ busy: 1, idle: 0, waiting: 2, limit: 1 });
  pool.give(first);
  expect(await second).toBe(first);
  const brokenBackend = await backendOf(first);
  pool.give(first, true);
  expect(await backendOf(await third)).not.toBe(brokenBackend);
  pool.give(await third);
  expect(pool.state).toEqual({ busy: 0, idle: 1, waiting: 0, limit: 1 });
});

test("take() fails when no connection is free in time", async () => {
  const { pool } = await open({ max: 1, connectionTimeoutMillis: 300 });
  const only = await pool.take();
  await expect(pool.take()).rejects.toThrow("timeout exceeded when trying to connect");
  pool.give(only);
  expect(pool.take()).toBe(only);
  pool.give(only);
});

test("a connection that nobody needs for 10 s is closed; one in use stays", async () => {
  vi.useFakeTimers({ toFake: ["setInterval"] });
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const { pool, connectionString } = await open();
  const observer = await connect(connectionString);
  const [needed, spare] = [await pool.take(), await pool.take()];
  const backends = [await backendOf(needed), await backendOf(spare)];
  pool.give(spare);
  pool.give(needed);
  // A whole round in which only one of them was taken.
  vi.advanceTimersByTime(10_000);
  expect(pool.take()).toBe(needed);
  pool.give(needed);
  vi.advanceTimersByTime(9_000);
  expect(pool.state.idle).toBe(2);
  vi.advanceTimersByTime(1_000);
  expect(pool.state).toEqual({ busy: 0, idle: 1, waiting: 0, limit: 2 });
  const left = await until(
    "the spare one is closed",
    () => openOf(observer, backends),
    30,
    ({ length }) => length < 2,
  );
  expect(left).toEqual(backends.slice(0, 1));
  vi.clearAllTimers();
});

test("a connection that is lost while idle is replaced, and reported", async () => {
  const { pool, connectionString } = await open();
  const lost = await pool.take();
  const backend = await backendOf(lost);
  pool.give(lost);
  const other = await connect(connectionString);
  await other.query("select pg_terminate_backend($1)", [backend]);
  await until(
    "the loss is noticed",
    () => losses,
    5,
    ({ length }) => length > 0,
  );
  expect(losses).toEqual(["terminating connection due to administrator command"]);
  const next = await pool.take();
  expect(await backendOf(next)).not.toBe(backend);
  pool.give(next);
  expect(pool.state).toEqual({ busy: 0, idle: 1, waiting: 0, limit: 2 });
});

test("a connection that is lost while in use is not used again, even if it is given back as whole", async () => {
  const { pool, connectionString } = await open();
  const lost = await pool.take();
  const backend = await backendOf(lost);
  const other = await connect(connectionString);
  const failed = once(lost, "error");
  await other.query("select pg_terminate_backend($1)", [backend]);
  await failed;
  pool.give(lost);
  const next = await pool.take();
  expect(await backendOf(next)).not.toBe(backend);
  pool.give(next);
  expect(losses).toEqual([]);
});

test("close() waits for the connections in use", async () => {
  const { pool } = await open({ max: 1 });
  const busy = await pool.take();
  const running = busy.query("select pg_sleep(0.2)");
  pools.splice(pools.indexOf(pool), 1);
  const closed = pool.close();
  await running;
  pool.give(busy);
  await closed;
  expect(pool.state).toEqual({ busy: 0, idle: 0, waiting: 0, limit: 1 });
});

const portOf = (server: Server): number => (server.address() as AddressInfo).port;

/** A relay to a database that stops relaying without closing anything. */
const openRelay = async (databaseUrl: string) => {
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
  onTestFinished(() => {
    for (const end of ends) end.destroy();
    server.close();
  });
  url.port = String(portOf(server));
  const fallSilent = () => {
    for (const end of ends) end.unpipe().pause();
  };
  return { url: url.href, fallSilent };
};

test("a statement without an answer fails after longestUseMs; an idle connection stays", async () => {
  const relay = await openRelay(await createDatabase());
  const { pool } = await open({ connectionString: relay.url, longestUseMs: 500 });
  const [silent, unused] = [await pool.take(), await pool.take()];
  pool.give(unused);
  relay.fallSilent();
  const startedAt = performance.now();
  await expect(silent.query("select 1")).rejects.toThrow("it does not answer");
  const ms = performance.now() - startedAt;
  expect(ms).toBeGreaterThan(400);
  expect(ms).toBeLessThan(1_500);
  pool.give(silent, true);
  expect(pool.state).toEqual({ busy: 0, idle: 1, waiting: 0, limit: 2 });
  pool.dropKept();
  expect(pool.state.idle).toBe(0);
});

test("statements that each take less than longestUseMs are not cut off, however many", async () => {
  const { pool } = await open({ longestUseMs: 500 });
  for (let times = 0; times < 3; times++) {
    const client = await pool.take();
    await client.query("select pg_sleep(0.25)");
    pool.give(client);
  }
  expect(losses).toEqual([]);
});

test("within() rejects after the given time, and else passes the outcome on", async () => {
  const tooLate = () => new Error("too late");
  const startedAt = performance.now();
  await expect(within(100, sleep(5_000, "late", { ref: false }), tooLate)).rejects.toThrow("too late");
  expect(performance.now() - startedAt).toBeLessThan(1_000);
  expect(await within(1_000, sleep(50, "in time"), tooLate)).toBe("in time");
  await expect(within(1_000, Promise.reject(new Error("its own")), tooLate)).rejects.toThrow("its own");
});

test("within() takes what arrived while the process was busy for in time", async () => {
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
