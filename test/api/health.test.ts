import { readFileSync } from "node:fs";
import { Agent } from "node:http";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { CHECK, createSampleDatabase, FRESH_FOR_A_DAY, startTestApi } from "../support/api.ts";
import { sendHttp } from "../support/http.ts";
import { waitUntil } from "../support/setup.ts";
import { createDatabaseRelay, forwardAll, startTcpRelay } from "../support/tcp-relay.ts";
import { test as base } from "../support/test.ts";

const IMAGE = { BUILD_VERSION: "1.2.3", BUILD_COMMIT: "0123abc", BUILD_TIME: "2026-01-02T03:04:05Z" };
const test = base.extend("env", { ...IMAGE, LOG_LEVEL: "debug", TRUST_PROXY: "127.0.0.1" });

test("/health returns ok while the process runs", async ({ samples }) => {
  const response = await samples.get("/health");
  expect([response.status, await response.json()]).toEqual([200, { status: "ok" }]);
});

test("/ready returns ready when every chain has answers", async ({ samples }) => {
  const response = await samples.get("/ready");
  expect([response.status, await response.json()]).toEqual([200, { status: "ready" }]);
});

test("/status returns the state of every chain and the version", async ({ samples }) => {
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../../package.json"), "utf8"));
  const chain = (chainId: number, name: string) => ({
    chainId,
    name,
    shard: "registry",
    ready: true,
    reason: null,
    indexedBlock: expect.any(Number),
    indexedBlockTimestamp: expect.any(Number),
    finalizedBlock: expect.any(Number),
    reachedBlock: expect.any(Number),
    newestBlock: expect.any(Number),
    newestBlockTimestamp: expect.any(Number),
    lagSeconds: expect.any(Number),
    stateDigest: null,
    verification: { block: expect.any(Number), wallets: expect.any(Number), at: expect.stringMatching(/^\d{4}-/) },
  });
  const response = await samples.get("/status");
  expect(response.status).toBe(200);
  const status = await response.json();
  expect(status).toEqual({
    version,
    commit: null,
    builtAt: null,
    startedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    database: "reachable",
    missingShards: [],
    chains: [chain(1, "Ethereum"), chain(137, "Polygon")],
  });
  const [ethereum] = (status as { chains: { indexedBlock: number; finalizedBlock: number; newestBlock: number }[] })
    .chains;
  expect(ethereum?.indexedBlock).toBeGreaterThan(20);
  expect(ethereum?.newestBlock).toBeGreaterThanOrEqual(ethereum?.indexedBlock ?? Number.NaN);
  expect(ethereum?.finalizedBlock).toBeLessThanOrEqual(ethereum?.indexedBlock ?? Number.NaN);
});

test("/status and /openapi.json return the version of the image", async ({ api }) => {
  const image = { version: "1.2.3", commit: "0123abc", builtAt: "2026-01-02T03:04:05Z" };
  expect(await (await api.get("/status")).json()).toMatchObject(image);
  expect(await (await api.get("/openapi.json")).json()).toMatchObject({ info: { version: "1.2.3" } });
});

test("the log has a JSON line per request, with its id and without wallets", async ({ api }) => {
  const wallet = `0x${"ab".repeat(20)}`;
  await api.get(`/registry/v2/${wallet}`, { headers: { "X-Request-Id": "look-for-me" } });
  await api.get(`/nowhere/${wallet}`);
  await waitUntil("both are logged", api.output, 60, (output) => /look-for-me.*"unknown"/s.test(output));
  const lines = api
    .output()
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines.find(({ requestId }) => requestId === "look-for-me")).toMatchObject({
    level: 30,
    method: "GET",
    route: "/registry/v2/{wallet}",
    status: 200,
    ms: expect.any(Number),
  });
  expect(api.output()).not.toContain(wallet);
});

/** The message with which a client of Postgres ends each statement. */
const SYNC = Buffer.from("S\0\0\0\x04");

/** Creates a second address of a database, and counts the statements that arrive there. */
const countStatements = async (databaseUrl: string) => {
  let count = 0;
  const url = new URL(databaseUrl);
  const relay = await startTcpRelay(
    { host: url.hostname, port: Number(url.port) },
    {
      onConnection: (client, server) => {
        client.on("data", (data) => {
          for (let at = data.indexOf(SYNC); at !== -1; at = data.indexOf(SYNC, at + 1)) count++;
        });
        forwardAll(client, server);
      },
    },
  );
  onTestFinished(() => relay.stop());
  url.port = String(relay.port);
  return { url: url.href, ...relay, readCount: () => count };
};

/** Sends many requests to a path over some connections, and expects a 200 for each. */
const flood = async (port: number, path: string, connections: number) => {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const requests = Array.from({ length: 500 }, () => sendHttp(port, { method: "HEAD", path, agent }));
  for (const { status, body } of await Promise.all(requests)) expect(status, body).toBe(200);
  agent.destroy();
};

test("a flood of /ready, /status and /metrics causes few statements, and checks beside it are answered", async () => {
  const database = await countStatements(await createSampleDatabase());
  const api = await startTestApi({ databaseUrl: database.url, env: FRESH_FOR_A_DAY });
  const startedAt = performance.now();
  const before = database.readCount();
  let isOver = false;
  const floods = Promise.all([
    flood(api.port, "/ready", 8),
    flood(api.port, "/status", 8),
    // Each connection waits for the next of four scrapes in a second.
    flood(api.metricsPort, "/metrics", 60),
  ]).finally(() => {
    isOver = true;
  });
  let checks = 0;
  for (; !isOver; checks++) {
    const { status, body } = await sendHttp(api.port, { path: CHECK });
    expect([status, body]).toEqual([200, "true"]);
  }
  await floods;
  const seconds = (performance.now() - startedAt) / 1000;
  expect(checks).toBeGreaterThan(10);
  expect(database.readCount() - before - checks, `statements in ${seconds} s`).toBeLessThan(10 + 5 * seconds);
});

test("/ready returns 503 within 2 s after the database is lost, and 200 as soon as checks are answered again", async () => {
  const { url, open, close } = await createDatabaseRelay(await createSampleDatabase());
  await open();
  const api = await startTestApi({ databaseUrl: url, env: FRESH_FOR_A_DAY });
  const readStatus = async (path = "/ready") => (await api.get(path)).status;
  expect(await readStatus()).toBe(200);
  const lostAt = performance.now();
  close();
  await waitUntil("it is not ready", readStatus, 10, (status) => status === 503);
  expect(performance.now() - lostAt).toBeLessThan(2_000);
  expect(await (await api.get("/status")).json()).toMatchObject({ database: "out of reach" });

  await open();
  const readBoth = async () => [await readStatus(), await readStatus(CHECK), await readStatus()];
  const [, , ready] = await waitUntil("checks are answered", readBoth, 10, ([, check]) => check === 200);
  expect(ready).toBe(200);
});
