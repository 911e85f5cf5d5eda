import { Agent } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LoadProcess } from "../../../bench/load-process.ts";
import { type ApiProcess, CHECK, FRESH_FOR_A_DAY, launchApiProcess } from "../../support/api.ts";
import { sendHttp } from "../../support/http.ts";
import { addKey } from "../../support/keys.ts";
import { createPopularDatabase } from "../../support/million.ts";
import type { Description } from "../../support/openapi.ts";
import { drawWorstPortalRequests, drawWorstRequests, type WorstRequest } from "../../support/worst-requests.ts";

// One client sends the worst that its limits allow. Another, with a key and from another address, notices little.

const ORIGIN = "http://localhost";
const INTERVAL_MS = 25;
const MAX_P99_MS = 250;

let popular: Awaited<ReturnType<typeof createPopularDatabase>>;
let api: ApiProcess;
let key: string;
let document: Description;
beforeAll(async () => {
  popular = await createPopularDatabase(3_000);
  api = await launchApiProcess({
    databaseUrl: popular.databaseUrl,
    env: {
      ...FRESH_FOR_A_DAY,
      LOG_LEVEL: "warn",
      RATE_LIMIT_REQUESTS: "",
      TRUST_PROXY: "127.0.0.1",
      PUBLIC_URL: ORIGIN,
    },
  });
  ({ key } = await addKey(popular.client));
  document = (await (await api.get("/openapi.json")).json()) as Description;
});
afterAll(async () => {
  await api?.stop();
  await popular?.client.end();
});

/** A clock that counts at most 20 ms of a longer gap between its ticks: then the machine itself stood still. */
const startClock = () => {
  let elapsed = 0;
  let last = performance.now();
  const tick = () => {
    const now = performance.now();
    elapsed += Math.min(now - last, 20);
    last = now;
  };
  const timer = setInterval(tick, 5);
  return {
    now: () => {
      tick();
      return elapsed;
    },
    stop: () => clearInterval(timer),
  };
};

/** Sends a check every 25 ms while a task runs. */
const observe = async (task: () => Promise<unknown>) => {
  const clock = startClock();
  const agent = new Agent({ keepAlive: true });
  const durations: number[] = [];
  const checks: Promise<void>[] = [];
  const check = async () => {
    const startedAt = clock.now();
    const headers = { "X-API-KEY": key, "X-Forwarded-For": "198.51.100.1" };
    const { status, body } = await sendHttp(api.port, { path: CHECK, headers, agent });
    durations.push(clock.now() - startedAt);
    expect({ status, body }).toEqual({ status: 200, body: "true" });
  };
  const timer = setInterval(() => {
    const asked = check();
    // Promise.all() rethrows it at the end.
    asked.catch(() => {});
    checks.push(asked);
  }, INTERVAL_MS);
  await task().finally(() => clearInterval(timer));
  await Promise.all(checks);
  agent.destroy();
  clock.stop();
  durations.sort((a, b) => a - b);
  const at = (share: number) => durations[Math.floor(durations.length * share)] ?? Number.NaN;
  return { count: durations.length, p50: at(0.5), p99: at(0.99) };
};

const expectUnnoticed = async (name: string, task: () => Promise<unknown>) => {
  const { count, p50, p99 } = await observe(task);
  console.log(`${name}: ${count} checks, p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`);
  expect(p99).toBeLessThan(MAX_P99_MS);
};

const writeRequest = ({ method, path, headers, body }: WorstRequest, client: number): string => {
  const all = { ...headers, Host: "x", "X-Forwarded-For": `10.${client >> 8}.${client % 256}.1` };
  const lines = Object.entries({ ...all, "Content-Length": Buffer.byteLength(body) }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  return `${method} ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n${body}`;
};

const flood = async (requests: string[], { connections = 64, ms = 4_000 } = {}) => {
  const load = new LoadProcess();
  const result = await load.run({ ports: [api.port], connections, ms, requests }).finally(() => load.stop());
  console.log(result);
  return result;
};

/** What a parser, a pattern or a conversion takes longest for. */
const HARD = /nested arrays|many keys|number 99|"9"|"URI: "|repeated/;

// Many times what one client may send: each kind of request comes from an address of its own, so that few are refused.
test("the worst parameters and bodies, one after another over four connections", async () => {
  const drawn = [...drawWorstRequests(document, 32_768), ...drawWorstPortalRequests(ORIGIN)];
  const requests = drawn.filter(({ name }) => HARD.test(name)).map(writeRequest);
  await expectUnnoticed(`${requests.length} kinds of requests`, async () => {
    const { statuses, requests: sent } = await flood(requests, { connections: 4, ms: 10_000 });
    expect(Object.keys(statuses).filter((status) => status >= "500")).toEqual([]);
    expect(statuses["429"] ?? 0).toBeLessThan(sent / 2);
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
      { connections: 16 },
    );
    expect(Object.keys(statuses)).toEqual(["200"]);
  });
});
