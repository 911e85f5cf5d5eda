import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import {
  type Api,
  CHECK,
  createSampleDatabase,
  FRESH_FOR_A_DAY,
  HOT,
  NFT,
  OPERATIONS,
  startTestApi,
  VAULT,
} from "../support/api.ts";
import { sendHttp } from "../support/http.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { addKey } from "../support/keys.ts";
import { findSamples, parseMetrics, readValue, type Sample } from "../support/metrics.ts";
import { connectClient, waitUntil } from "../support/setup.ts";
import { test } from "../support/test.ts";

const scrape = async (api: Api): Promise<Sample[]> => parseMetrics(await api.metrics());

/** Returns the increased counts, by route and status. */
const changes = (before: readonly Sample[], after: readonly Sample[]) =>
  Object.fromEntries(
    findSamples(after, "requests_total").flatMap(({ labels, value }) => {
      const more = value - readValue(before, "requests_total", labels);
      return more === 0 ? [] : [[`${labels.route} ${labels.status}`, more]];
    }),
  );

/** Lists all series except Node's of garbage collection, which start at the first collection. */
const seriesOf = (samples: readonly Sample[]) =>
  samples
    .filter(({ name }) => !name.includes("nodejs_gc"))
    .map(({ name, labels }) => `${name} ${JSON.stringify(labels)}`);

test("requests_total counts each request once, by route and status", async ({ api }) => {
  const before = await scrape(api);
  for (const path of [...OPERATIONS.v1, ...OPERATIONS.v2]) expect((await api.get(path)).status).toBe(200);
  for (let asked = 0; asked < 5; asked++) await api.get(CHECK);
  await api.get(`/registry/v2/${HOT}/`);
  await api.get("/registry/v2/check/all");
  await api.get(CHECK, { method: "HEAD" });
  await api.get(CHECK, { headers: { "X-API-KEY": "unknown" } });
  await api.get(`${CHECK}&long=${"x".repeat(5000)}`);
  await api.get("/health");
  for (const path of ["/nothing", "/registry/v3/x", "/favicon.ico"]) await api.get(path);

  expect(changes(before, await scrape(api))).toEqual({
    "/registry/v1/{wallet} 200": 1,
    "/registry/v1/check/all 200": 1,
    "/registry/v1/check/contract 200": 1,
    "/registry/v1/check/token 200": 1,
    "/registry/v2/{wallet} 200": 2,
    "/registry/v2/check/all 200": 7,
    "/registry/v2/check/all 400": 1,
    "/registry/v2/check/all 401": 1,
    "/registry/v2/check/all 414": 1,
    "/registry/v2/check/contract 200": 1,
    "/registry/v2/check/erc721 200": 1,
    "/registry/v2/check/erc1155 200": 1,
    "/registry/v2/check/erc20 200": 1,
    "/health 200": 1,
    "unknown 404": 3,
  });
});

test("requests_total counts other methods once each", async ({ api }) => {
  const before = await scrape(api);
  await api.get(CHECK, { method: "OPTIONS" });
  await api.get(CHECK, { method: "POST" });
  await sendHttp(api.port, { method: "PROPFIND", path: CHECK });
  const counts = Object.entries(changes(before, await scrape(api)));
  expect(counts.filter(([series]) => series.endsWith(" 204")).map(([, more]) => more)).toEqual([1]);
  expect(counts.filter(([series]) => series.endsWith(" 405")).map(([, more]) => more)).toEqual([2]);
  expect(counts).toHaveLength(2);
});

test("no request creates a new series", async ({ api }) => {
  const before = seriesOf(await scrape(api));
  for (let number = 0; number < 20; number++) {
    await api.get(`/nothing/${number}`);
    await api.get(`/registry/v2/${VAULT.slice(0, -2)}${number + 10}`);
    await api.get(`/registry/v2/no-wallet-${number}`);
    await api.get(`${CHECK}&chainId=${number}`);
    await sendHttp(api.port, { method: number % 2 === 0 ? "DELETE" : "SEARCH", path: `/registry/${number}` });
  }
  expect(seriesOf(await scrape(api))).toEqual(before);
  expect(new Set(before).size).toBe(before.length);
});

test("request_duration_seconds has cumulative buckets up to all requests, and a sum in seconds", async ({ api }) => {
  const before = await scrape(api);
  const startedAt = performance.now();
  for (let asked = 0; asked < 40; asked++) await api.get(CHECK);
  const seconds = (performance.now() - startedAt) / 1000;
  const after = await scrape(api);

  const NAME = "request_duration_seconds";
  const route = "/registry/v2/check/all";
  const grown = (name: string) => readValue(after, name, { route }) - readValue(before, name, { route });
  expect(grown(`${NAME}_count`)).toBe(40);
  expect(grown(`${NAME}_sum`)).toBeGreaterThan(0);
  expect(grown(`${NAME}_sum`)).toBeLessThan(seconds);

  for (const { labels } of findSamples(after, `${NAME}_count`)) {
    const buckets = findSamples(after, `${NAME}_bucket`, labels);
    const bounds = buckets.map((bucket) => (bucket.labels.le === "+Inf" ? Infinity : Number(bucket.labels.le)));
    expect(bounds).toEqual([0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, Infinity]);
    const counts = buckets.map(({ value }) => value);
    expect(counts).toEqual(counts.toSorted((a, b) => a - b));
    const answered = findSamples(after, "requests_total", labels).reduce((sum, { value }) => sum + value, 0);
    expect(counts.at(-1)).toBe(answered);
    expect(readValue(after, `${NAME}_count`, labels)).toBe(answered);
  }
});

test("requests_waiting, questions_waiting, pool_connections and the duration buckets show slow answers", async ({
  databaseUrl,
}) => {
  const slow = await startTestApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, TRUST_PROXY: "127.0.0.1" } });
  expect((await slow.get(CHECK)).status).toBe(200);
  const before = await scrape(slow);
  const bucket = (samples: readonly Sample[], le: string) =>
    readValue(samples, "request_duration_seconds_bucket", { route: "/registry/v2/check/all", le });
  expect(readValue(before, "questions_waiting", { kind: "checks" })).toBe(0);

  const locker = await connectClient(databaseUrl);
  await locker.query(`begin; lock table ${await readServedSchema(locker)}.delegation_v2 in access exclusive mode`);
  // Ten clients: more than 12 requests of one at a time wait for their turn.
  const ask = (index: number) => slow.get(CHECK, { headers: { "X-Forwarded-For": `198.51.100.${index % 10}` } });
  const answers: Promise<Response>[] = [];
  let settled = 0;
  // All in one scrape, as requests wait for less than a second: on a busy machine, the next ones show it.
  const scrapeBusy = () => {
    if (settled === answers.length) {
      const sent = Array.from({ length: 200 }, (_, index) => ask(index));
      for (const answer of sent) answer.finally(() => settled++);
      answers.push(...sent);
    }
    return scrape(slow);
  };
  await waitUntil(
    "questions wait for a connection that is busy",
    scrapeBusy,
    20,
    (samples) =>
      readValue(samples, "questions_waiting", { kind: "checks" }) > 32 &&
      readValue(samples, "requests_waiting") > 0 &&
      readValue(samples, "pool_connections", { pool: "checks", state: "busy" }) > 0,
  );
  await sleep(150);
  await locker.query("rollback");
  const statuses = (await Promise.all(answers)).map(({ status }) => status);
  for (const status of statuses) expect([200, 503]).toContain(status);

  const after = await scrape(slow);
  expect(bucket(after, "0.1") - bucket(before, "0.1")).toBeLessThan(statuses.length);
  expect(bucket(after, "+Inf") - bucket(before, "+Inf")).toBe(statuses.length);
  expect(readValue(after, "questions_waiting", { kind: "checks" })).toBe(0);
  const grown = (name: string) =>
    readValue(after, name, { kind: "checks" }) - readValue(before, name, { kind: "checks" });
  // Each answered question was asked at least once, many in one statement.
  expect(grown("batch_questions_sum")).toBeGreaterThanOrEqual(statuses.filter((status) => status === 200).length);
  expect(grown("batch_questions_count")).toBeLessThan(grown("batch_questions_sum"));
});

test("batch_questions counts a single question as a batch of one, for checks, lists and keys separately", async ({
  api,
  database,
}) => {
  const { key } = await addKey(database);
  const sizes = (samples: readonly Sample[], kind: string) => [
    readValue(samples, "batch_questions_bucket", { kind, le: "1" }),
    readValue(samples, "batch_questions_count", { kind }),
    readValue(samples, "batch_questions_sum", { kind }),
  ];
  const before = await scrape(api);
  await api.get(CHECK, { headers: { "X-API-KEY": key } });
  await api.get(CHECK, { headers: { "X-API-KEY": key } });
  await api.get(`/registry/v2/${HOT}`);
  const after = await scrape(api);
  const more = (kind: string) => sizes(after, kind).map((value, index) => value - (sizes(before, kind)[index] ?? 0));
  expect(more("checks")).toEqual([2, 2, 2]);
  expect(more("lists")).toEqual([1, 1, 1]);
  expect(more("keys"), "looked up once").toEqual([1, 1, 1]);
});

test("chain metrics show blocks, the lag, and if the chain is answered for", async () => {
  const databaseUrl = await createSampleDatabase();
  const database = await connectClient(databaseUrl);
  const aging = await startTestApi({ databaseUrl });
  const schema = await readServedSchema(database);
  await database.query("set session_replication_role = replica");
  const age = (seconds: number, chainId: number) =>
    database.query(
      `update ${schema}.indexed_block set timestamp = extract(epoch from now())::bigint - $1 where chain_id = $2`,
      [seconds, chainId],
    );
  const chain = { chain_id: "1", chain: "Ethereum", shard: "registry" };
  const lagOf = async (labels: Record<string, string>) => readValue(await scrape(aging), "chain_lag_seconds", labels);

  await age(100, 1);
  await age(5, 137);
  const readLags = async () => [await lagOf(chain), await lagOf({ chain_id: "137" })] as const;
  await waitUntil("the lags are read", readLags, 10, ([ethereum, polygon]) => ethereum >= 100 && polygon < 60);
  expect(await lagOf(chain)).toBeLessThan(160);
  const healthy = await scrape(aging);
  const { rows: blocks } = await database.query("select chain_id, number from registry.indexed_block order by 1");
  const indexed = findSamples(healthy, "chain_indexed_block");
  expect(indexed.map(({ labels, value }) => [labels.chain_id, value])).toEqual(
    blocks.map(({ chain_id, number }) => [String(chain_id), Number(number)]),
  );
  expect(readValue(healthy, "chain_newest_block", chain)).toBeGreaterThanOrEqual(
    readValue(healthy, "chain_indexed_block", chain),
  );
  expect(readValue(healthy, "chain_answered", chain)).toBe(1);
  expect(readValue(healthy, "max_index_lag_seconds")).toBe(600);

  await age(700, 1);
  const readAnswered = async () => readValue(await scrape(aging), "chain_answered", chain);
  await waitUntil("the chain is not answered for", readAnswered, 10, (answered) => answered === 0);
  expect(await lagOf(chain)).toBeGreaterThanOrEqual(700);
  expect(readValue(await scrape(aging), "chain_answered", { chain_id: "137" })).toBe(1);

  await database.query("update indexer.shard set caught_up = false");
  const readLagSamples = async () => findSamples(await scrape(aging), "chain_lag_seconds");
  await waitUntil("no lag is known", readLagSamples, 60, ({ length }) => length === 0);
  const behind = await scrape(aging);
  expect(findSamples(behind, "chain_indexed_block")).toEqual([]);
  expect(findSamples(behind, "chain_answered").map(({ value }) => value)).toEqual([0, 0]);
  expect(readValue(behind, "chain_reached_block", chain)).toBeGreaterThanOrEqual(0);
});

test("metrics include build, memory, event loop and pool limits, all with one prefix", async ({ api }) => {
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../../package.json"), "utf8"));
  const samples = await scrape(api);
  expect(readValue(samples, "build_info", { version, node: process.versions.node })).toBe(1);
  expect(readValue(samples, "database_reachable")).toBe(1);
  expect(readValue(samples, "process_resident_memory_bytes")).toBeGreaterThan(10_000_000);
  expect(readValue(samples, "nodejs_eventloop_lag_p99_seconds")).toBeGreaterThan(0);
  expect(readValue(samples, "pool_connections_limit", { pool: "checks" })).toBe(8);
  for (const { name } of samples) expect(name).toMatch(/^delegation_registry_/);
});

// test/api/keys/keys.test.ts covers keys.
test("no metric contains a wallet, a contract or an IP address", async ({ api }) => {
  for (const path of [...OPERATIONS.v1, ...OPERATIONS.v2, `/nothing/${VAULT}`]) await api.get(path);
  const text = (await api.metrics()).toLowerCase();
  for (const secret of [VAULT, HOT, NFT, "127.0.0.1"]) expect(text).not.toContain(secret.toLowerCase());
});

test("the metrics port answers only GET and HEAD of /metrics", async ({ api }) => {
  const ask = (method: string, path: string) => sendHttp(api.metricsPort, { method, path });
  const got = await ask("GET", "/metrics");
  expect(got.status).toBe(200);
  expect(got.headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8");
  expect(await ask("HEAD", "/metrics")).toMatchObject({ status: 200, body: "" });
  expect((await ask("GET", "/metrics?x=1")).status).toBe(200);
  expect(await ask("POST", "/metrics")).toMatchObject({ status: 405, headers: { allow: "GET, HEAD" } });
  expect((await ask("GET", "/")).status).toBe(404);
  expect((await ask("GET", "/health")).status).toBe(404);
});

test("a scrape takes less than 100 ms of processor time, and requests are answered meanwhile", async ({ api }) => {
  await scrape(api);
  const before = process.cpuUsage();
  const [texts, answer] = await Promise.all([
    Promise.all(Array.from({ length: 20 }, () => api.metrics())),
    api.get(CHECK),
  ]);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1000 / 20).toBeLessThan(100);
  expect(answer.status).toBe(200);
  for (const text of texts) expect(text).toContain("delegation_registry_build_info");
});
