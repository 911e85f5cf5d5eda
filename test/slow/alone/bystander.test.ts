import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LoadProcess } from "../../../bench/load-process.ts";
import { type ApiProcess, CHECK, FRESH_FOR_A_DAY, launchApiProcess } from "../../support/api.ts";
import { sendHttp } from "../../support/http.ts";
import { addKey } from "../../support/keys.ts";
import { createPopularDatabase } from "../../support/million.ts";
import type { Description } from "../../support/openapi.ts";
import { drawWorstPortalRequests, drawWorstRequests, type WorstRequest } from "../../support/worst-requests.ts";

// One client sends the worst that its limits allow. Another, with a key and from another address, notices little.

const INTERVAL_MS = 25;
const MAX_P99_MS = 250;
/** Requests in a window of the rate limit, and bodies: each has up to three checks. */
const LIMIT = 25;
const BODIES = 8;
const WINDOW_MS = 10_000;

let popular: Awaited<ReturnType<typeof createPopularDatabase>>;
let api: ApiProcess;
let key: string;
let document: Description;
beforeAll(async () => {
  popular = await createPopularDatabase(3_000);
  api = await launchApiProcess({
    databaseUrl: popular.databaseUrl,
    env: { ...FRESH_FOR_A_DAY, LOG_LEVEL: "warn", RATE_LIMIT_REQUESTS: "", TRUST_PROXY: "127.0.0.1" },
  });
  ({ key } = await addKey(popular.client));
  document = (await (await api.get("/openapi.json")).json()) as Description;
});
afterAll(async () => {
  await api?.stop();
  await popular?.client.end();
});

/** Sends a check every 25 ms while a task runs. */
const observe = async (task: () => Promise<unknown>) => {
  const agent = new Agent({ keepAlive: true });
  const durations: number[] = [];
  const checks: Promise<void>[] = [];
  const check = async () => {
    const startedAt = performance.now();
    const headers = { "X-API-KEY": key, "X-Forwarded-For": "198.51.100.1" };
    const { status, body } = await sendHttp(api.port, { path: CHECK, headers, agent });
    durations.push(performance.now() - startedAt);
    expect({ status, body }).toEqual({ status: 200, body: "true" });
  };
  const timer = setInterval(() => checks.push(check()), INTERVAL_MS);
  await task().finally(() => clearInterval(timer));
  await Promise.all(checks);
  agent.destroy();
  durations.sort((a, b) => a - b);
  const at = (share: number) => durations[Math.floor(durations.length * share)] ?? Number.NaN;
  return { count: durations.length, p50: at(0.5), p99: at(0.99) };
};

const expectUnnoticed = async (name: string, task: () => Promise<unknown>) => {
  const { count, p50, p99 } = await observe(task);
  console.log(`${name}: ${count} checks, p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`);
  expect(p99).toBeLessThan(MAX_P99_MS);
};

/** Takes requests from all parts of a list. */
const takeEvenly = (requests: readonly WorstRequest[], count: number): WorstRequest[] =>
  Array.from({ length: count }, (_, index) => requests[Math.floor((index * requests.length) / count)]).flatMap(
    (request) => request ?? [],
  );

/** Sends requests at the same time, as a client without a key. Returns how many were refused. */
const sendTogether = async (requests: readonly WorstRequest[]): Promise<number> => {
  const answers = await Promise.all(
    requests.map(({ headers, body, ...request }) =>
      sendHttp(api.port, { ...request, headers: { ...headers, "X-Forwarded-For": "203.0.113.1" } }, body),
    ),
  );
  for (const [index, { status, body }] of answers.entries()) {
    expect(status, `${requests[index]?.name}: ${body}`).toBeLessThan(500);
  }
  return answers.filter(({ status }) => status === 429).length;
};

test("the worst bodies and parameters within the rate limit", async () => {
  const drawn = drawWorstRequests(document, 32_768);
  const bodies = takeEvenly(
    drawn.filter(({ body }) => body !== ""),
    BODIES,
  );
  const questions = takeEvenly(
    drawn.filter(({ path, body }) => body === "" && /^\/(registry|wallets)/.test(path)),
    LIMIT,
  );
  const others = drawn.filter(({ path }) => !/^\/(registry|wallets)/.test(path));
  const portal = takeEvenly(drawWorstPortalRequests(api.url), LIMIT);
  await expectUnnoticed("worst requests", async () => {
    expect(await sendTogether([...bodies, ...portal, ...takeEvenly(others, 100)])).toBe(0);
    await sleep(WINDOW_MS);
    expect(await sendTogether([...questions, ...takeEvenly(others, 100)])).toBe(0);
    await sleep(1_000);
  });
});

const get = (path: string, headers = "") => `GET ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`;

test.each([
  ["/openapi.json", get("/openapi.json")],
  ["/docs", get("/docs")],
  ["/insights/data", get("/insights/data")],
  ["/networks", get("/networks")],
  ["/status", get("/status")],
  ["a path that does not exist", get("/nowhere")],
  ["preflights", "OPTIONS /registry/checks HTTP/1.1\r\nHost: x\r\nOrigin: https://x\r\n\r\n"],
])("a flood of %s over 64 connections", async (name, request) => {
  await expectUnnoticed(name, () => flood([request]));
});

const flood = async (requests: string[], connections = 64) => {
  const load = new LoadProcess();
  const result = await load.run({ ports: [api.port], connections, ms: 4_000, requests }).finally(() => load.stop());
  console.log(result);
  return result;
};

test("pages of 1,000 rows with a key over 16 connections", async () => {
  const { key: other } = await addKey(popular.client);
  const headers = `X-API-KEY: ${other}\r\n`;
  const pages = [
    `/registry/v2/${popular.popular}?limit=1000&details=true`,
    `/wallets/${popular.popular}/delegations?limit=1000`,
    `/wallets/${popular.popular}/vaults?check=all&limit=1000`,
    `/wallets/${popular.popular}/history?limit=1000`,
  ];
  await expectUnnoticed("pages", async () => {
    const { statuses } = await flood(
      pages.map((page) => get(page, headers)),
      16,
    );
    expect(Object.keys(statuses)).toEqual(["200"]);
  });
});
