import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiProcess as Api, CHECK, FRESH_FOR_A_DAY, launchApiProcess } from "../../support/api.ts";
import { describeWaits, measureAlone, startBystander } from "../../support/bystander.ts";
import { residentMb } from "../../support/measure.ts";
import { parseMetrics, samplesOf } from "../../support/metrics.ts";
import { createPopularDatabase } from "../../support/million.ts";
import { until } from "../../support/setup.ts";

// Clients that hang up before they are answered, or in the middle of a long list.

const FANS = 20_000;
const ROUNDS = 4;
const CHECKS = 1_500;
const LISTS = 100;
const AT_ONCE = 16;

let popular: Awaited<ReturnType<typeof createPopularDatabase>>;
let api: Api;
beforeAll(async () => {
  popular = await createPopularDatabase(FANS);
  // Short of memory, so that it collects what nobody needs: what stays is what leaks.
  const env = { ...FRESH_FOR_A_DAY, LOG_LEVEL: "warn", NODE_OPTIONS: "--max-old-space-size=100" };
  api = await launchApiProcess({ databaseUrl: popular.databaseUrl, env });
});
afterAll(async () => {
  await api?.stop();
  await popular?.client.end();
});

/** Asks, and resets the connection: at once, soon, or when the first part of the answer is there. */
const askAndLeave = (path: string, when: number | "answered") =>
  new Promise<void>((resolve) => {
    const socket = connect(api.port, "127.0.0.1");
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

const repeat = async (times: number, task: (index: number) => Promise<void>) => {
  let next = 0;
  const work = async () => {
    while (next < times) await task(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
};

const MOMENTS = [0, 1, 2, 5, "answered"] as const;
const LIST_MOMENTS = [0, 5, 20, 60, "answered"] as const;
const at = <Moment>(moments: readonly Moment[], index: number): Moment => {
  const moment = moments[index % moments.length];
  if (moment === undefined) throw new Error("There are no moments.");
  return moment;
};

const busyConnections = async (): Promise<number> => {
  const samples = parseMetrics(await api.metrics());
  const busy = samplesOf(samples, "pool_connections", { state: "busy" });
  const waiting = [...samplesOf(samples, "pool_waiting"), ...samplesOf(samples, "questions_waiting")];
  expect(busy).toHaveLength(3);
  return [...busy, ...waiting].reduce((sum, { value }) => sum + value, 0);
};

test(`${ROUNDS * CHECKS} checks and ${ROUNDS * LISTS} long lists that nobody waited for leave nothing behind`, async () => {
  const path = `/registry/v2/${popular.popular}`;
  const alone = await measureAlone(api);
  const stop = startBystander(api);
  const sizes: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await repeat(CHECKS, (index) => askAndLeave(CHECK, at(MOMENTS, index)));
    await repeat(LISTS, (index) => askAndLeave(path, at(LIST_MOMENTS, index)));
    sizes.push(residentMb(api.pid));
  }
  const meanwhile = await stop();
  console.log(
    `After each round ${sizes.map((size) => size.toFixed(0)).join(", ")} MB. ` +
      `Alone: ${describeWaits(alone)}; meanwhile: ${describeWaits(meanwhile)}`,
  );

  await until("all connections are back in their pools", async () => (await busyConnections()) === 0, 30);
  const { rows } = await popular.client.query(
    "select state, query from pg_stat_activity where application_name = 'api' and datname = current_database()",
  );
  expect(rows.length).toBeLessThanOrEqual(16);
  for (const { state, query } of rows) {
    expect(state, query).toBe("idle");
    // A connection that had a cursor has closed it.
    expect(query).not.toMatch(/^(declare|fetch)/);
  }
  const [first = 0] = sizes;
  expect(Math.max(...sizes) - first).toBeLessThan(50);
  expect(meanwhile.slowest).toBeLessThan(5_000);

  // All places for long lists are free: four at once are sent whole.
  const lists = await Promise.all(
    Array.from({ length: 4 }, async () => {
      const response = await api.get(path);
      return JSON.parse(await response.text());
    }),
  );
  for (const list of lists) expect(list).toHaveLength(FANS);
  expect(api.output()).not.toMatch(/Unexpected error|unhandled/i);
}, 120_000);
