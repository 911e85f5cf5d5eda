import { connect } from "node:net";
import { expect } from "vitest";
import { type ApiProcess, CHECK } from "../../support/api.ts";
import { findSamples, parseMetrics } from "../../support/metrics.ts";
import { readResidentMb } from "../../support/processes.ts";
import { observeBystander, popularTest } from "../../support/service-test.ts";
import { waitUntil } from "../../support/setup.ts";

// Clients that disconnect before the response, or in the middle of a long list.

const FANS = 20_000;
const ROUNDS = 4;
const CHECKS = 1_500;
const LISTS = 100;
const AT_ONCE = 16;

// A small heap, so that garbage is collected and only leaks remain.
const test = popularTest.extend("fans", FANS).extend("env", { NODE_OPTIONS: "--max-old-space-size=100" });

/** When a client disconnects: after this many ms, or when the first part of the response arrives. */
type Moment = number | "answered";

const askAndLeave = (port: number, path: string, when: Moment) =>
  new Promise<void>((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const leave = () => socket.resetAndDestroy();
    socket.on("error", () => {});
    socket.on("close", () => resolve());
    socket.once("connect", () => {
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
      if (when === "answered") socket.once("data", leave);
      else if (when === 0) setImmediate(leave);
      else setTimeout(leave, when);
    });
  });

const askMany = async (port: number, times: number, path: string, moments: readonly Moment[]) => {
  let next = 0;
  const work = async () => {
    while (next < times) await askAndLeave(port, path, moments[next++ % moments.length] ?? 0);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
};

/** Reads the pool connections in use, and the questions that wait for one. */
const readBusy = async (api: ApiProcess) => {
  const samples = parseMetrics(await api.metrics());
  const busy = findSamples(samples, "pool_connections", { state: "busy" });
  expect(busy).toHaveLength(5);
  return [...busy, ...findSamples(samples, "pool_waiting"), ...findSamples(samples, "questions_waiting")].filter(
    ({ value }) => value > 0,
  );
};

test(`${ROUNDS * CHECKS} checks and ${ROUNDS * LISTS} long lists cancelled by their clients leak no memory, connection or cursor`, async ({
  service: api,
  popular,
  database,
}) => {
  const path = `/registry/v2/${popular}`;
  const sizes: number[] = [];
  const { meanwhile } = await observeBystander(api, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      await askMany(api.port, CHECKS, CHECK, [0, 1, 2, 5, "answered"]);
      await askMany(api.port, LISTS, path, [0, 5, 20, 60, "answered"]);
      sizes.push(readResidentMb(api.pid));
    }
  });
  expect(Math.max(...sizes) - (sizes[0] ?? 0), `MB after each round: ${sizes}`).toBeLessThan(50);
  expect(meanwhile.slowest).toBeLessThan(5_000);

  await waitUntil(
    "all connections are back in their pools",
    () => readBusy(api),
    30,
    ({ length }) => length === 0,
  );
  const { rows } = await database.query(
    "select state, query from pg_stat_activity where application_name = 'api' and datname = current_database()",
  );
  expect(rows.length).toBeLessThanOrEqual(16);
  for (const { state, query } of rows) {
    expect(state, query).toBe("idle");
    // A connection that had a cursor has closed it.
    expect(query).not.toMatch(/^(declare|fetch)/);
  }

  // All slots for long lists are free: four at once are sent completely.
  const lists = await Promise.all(Array.from({ length: 4 }, async () => (await api.get(path)).json()));
  for (const list of lists) expect(list).toHaveLength(FANS);
  expect(api.output()).not.toMatch(/Unexpected error|unhandled|broke off/i);
});
