import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type Api, launchSampleApi } from "../support/api.ts";
import { until } from "../support/setup.ts";

let api: Api;
beforeAll(async () => {
  api = await launchSampleApi({ LOG_LEVEL: "debug" });
});
afterAll(() => api?.stop());

test("/health is ok while the process runs", async () => {
  const response = await api.get("/health");
  expect([response.status, await response.json()]).toEqual([200, { status: "ok" }]);
});

test("/ready is ready when every chain can be answered for", async () => {
  const response = await api.get("/ready");
  expect([response.status, await response.json()]).toEqual([200, { status: "ready" }]);
});

test("/status gives the state of every chain, and the version", async () => {
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
  });
  const response = await api.get("/status");
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

test("/status and the OpenAPI document give the version of the image", async () => {
  const image = { BUILD_VERSION: "1.2.3", BUILD_COMMIT: "0123abc", BUILD_TIME: "2026-01-02T03:04:05Z" };
  const built = await launchSampleApi(image);
  onTestFinished(() => built.stop());
  expect(await (await built.get("/status")).json()).toMatchObject({
    version: "1.2.3",
    commit: "0123abc",
    builtAt: "2026-01-02T03:04:05Z",
  });
  const { info } = (await (await built.get("/openapi.json")).json()) as { info: { version: string } };
  expect(info.version).toBe("1.2.3");
});

test("the log has a line of JSON for each request, with its id and without wallets", async () => {
  const wallet = `0x${"ab".repeat(20)}`;
  await api.get(`/registry/v2/${wallet}`, { headers: { "X-Request-Id": "look-for-me" } });
  await api.get(`/nowhere/${wallet}`);
  await until("both are logged", api.output, 60, (output) => /look-for-me.*"unknown"/s.test(output));
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
