import { Agent } from "node:http";
import { expect } from "vitest";
import { LoadProcess } from "../../../bench/load-process.ts";
import { type ApiProcess, CHECK } from "../../support/api.ts";
import { DEVELOPER_OPERATIONS } from "../../support/developers.ts";
import { sendHttp } from "../../support/http.ts";
import { addKey } from "../../support/keys.ts";
import { listOperations, readDocument } from "../../support/openapi.ts";
import { startStopwatch } from "../../support/processes.ts";
import { popularTest } from "../../support/service-test.ts";
import { drawWorstRequests, isHard, type WorstRequest } from "../../support/worst-requests.ts";

// One client sends the worst that its limits allow. Another, with a key and from another address, notices little.

const ORIGIN = "http://localhost";
const INTERVAL_MS = 25;
const MAX_P99_MS = 250;

const test = popularTest
  .extend("env", { RATE_LIMIT_REQUESTS: "", TRUST_PROXY: "127.0.0.1", PUBLIC_URL: ORIGIN })
  .extend("bystander", { scope: "file" }, async ({ service, database }) => ({
    ...service,
    key: (await addKey(database)).key,
  }));

type Service = ApiProcess & { key: string };

/** Sends a check every 25 ms while a task runs. */
const observe = async ({ port, pid, key }: Service, task: () => Promise<unknown>) => {
  const agent = new Agent({ keepAlive: true });
  const durations: number[] = [];
  const checks: Promise<void>[] = [];
  const check = async () => {
    const read = startStopwatch(pid);
    const headers = { "X-API-KEY": key, "X-Forwarded-For": "198.51.100.1" };
    const { status, body } = await sendHttp(port, { path: CHECK, headers, agent });
    durations.push(read());
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
  durations.sort((a, b) => a - b);
  const at = (share: number) => durations[Math.floor(durations.length * share)] ?? Number.NaN;
  return { count: durations.length, p50: at(0.5), p99: at(0.99) };
};

const expectUnnoticed = async (service: Service, name: string, task: () => Promise<unknown>) => {
  const { count, p50, p99 } = await observe(service, task);
  console.log(`${name}: ${count} checks, p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`);
  expect(p99).toBeLessThan(MAX_P99_MS);
};

const writeRequest = ({ method, path, headers, body }: WorstRequest, client: number): string => {
  const own = { Host: "x", Origin: ORIGIN, "X-Forwarded-For": `10.${client >> 8}.${client % 256}.1` };
  const lines = Object.entries({ ...headers, ...own, "Content-Length": Buffer.byteLength(body) }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  return `${method} ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n${body}`;
};

const flood = async ({ port }: Service, requests: string[], { connections = 64, ms = 4_000 } = {}) => {
  const load = new LoadProcess();
  const result = await load.run({ ports: [port], connections, ms, requests }).finally(() => load.stop());
  console.log(result);
  return result;
};

// Many times what one client may send: each kind of request comes from an address of its own, so that few are refused.
test("the worst parameters and bodies, one after another over four connections", async ({ bystander: service }) => {
  const documented = drawWorstRequests(listOperations(readDocument()), 32_768);
  const drawn = [...documented, ...drawWorstRequests(DEVELOPER_OPERATIONS, 30_000)];
  const requests = drawn.filter(isHard).map(writeRequest);
  await expectUnnoticed(service, `${requests.length} kinds of requests`, async () => {
    const { statuses, requests: sent } = await flood(service, requests, { connections: 4, ms: 10_000 });
    expect(Object.keys(statuses).filter((status) => status >= "500")).toEqual([]);
    expect(statuses["429"] ?? 0).toBeLessThan(sent / 2);
  });
});

const get = (path: string, headers = "") => `GET ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`;

test.for([
  ["/openapi.json", get("/openapi.json")],
  ["/docs", get("/docs")],
  ["/insights/data", get("/insights/data")],
  ["/networks", get("/networks")],
  ["/status", get("/status")],
  ["a path that does not exist", get("/nowhere")],
  ["preflights", "OPTIONS /registry/checks HTTP/1.1\r\nHost: x\r\nOrigin: https://x\r\n\r\n"],
] as const)("a flood of %s over 64 connections", async ([name, request], { bystander: service }) => {
  await expectUnnoticed(service, name, () => flood(service, [request]));
});

test("pages of 1,000 rows with a key over 16 connections", async ({ bystander: service, popular, database }) => {
  const { key } = await addKey(database);
  const pages = [
    `/registry/v2/${popular}?limit=1000&details=true`,
    `/wallets/${popular}/delegations?limit=1000`,
    `/wallets/${popular}/vaults?check=all&limit=1000`,
    `/wallets/${popular}/history?limit=1000`,
  ];
  const requests = pages.map((page) => get(page, `X-API-KEY: ${key}\r\n`));
  await expectUnnoticed(service, "pages", async () => {
    const { statuses } = await flood(service, requests, { connections: 16 });
    expect(Object.keys(statuses)).toEqual(["200"]);
  });
});
