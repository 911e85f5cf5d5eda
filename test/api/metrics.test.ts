import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Api,
  CHECK,
  createSampleDatabase,
  FRESH_FOR_A_DAY,
  HOT,
  launchApi,
  NFT,
  OPERATIONS,
  startApi,
  VAULT,
} from "../support/api.ts";
import { sendHttp } from "../support/http.ts";
import { servedSchema } from "../support/index-copy.ts";
import { addKey, misspell, secretOf } from "../support/keys.ts";
import { parseMetrics, readValue, type Sample, samplesOf } from "../support/metrics.ts";
import { connect, until } from "../support/setup.ts";

let databaseUrl: string;
let api: Api;
beforeAll(async () => {
  databaseUrl = await createSampleDatabase();
  api = await launchApi({ databaseUrl, env: FRESH_FOR_A_DAY });
});
afterAll(() => api?.stop());

const scrape = async (from = api): Promise<Sample[]> => parseMetrics(await from.metrics());

/** The counts that have grown, by route and status. */
const changes = (before: readonly Sample[], after: readonly Sample[]) =>
  Object.fromEntries(
    samplesOf(after, "requests_total").flatMap(({ labels, value }) => {
      const more = value - readValue(before, "requests_total", labels);
      return more === 0 ? [] : [[`${labels.route} ${labels.status}`, more]];
    }),
  );

/** All series but Node's own of its garbage collection, which begin when there is some. */
const seriesOf = (samples: readonly Sample[]) =>
  samples
    .filter(({ name }) => !name.includes("nodejs_gc"))
    .map(({ name, labels }) => `${name} ${JSON.stringify(labels)}`);

test("requests_total counts every request once, by route and status", async () => {
  const before = await scrape();
  for (const path of [...OPERATIONS.v1, ...OPERATIONS.v2]) expect((await api.get(path)).status).toBe(200);
  for (let asked = 0; asked < 5; asked++) await api.get(CHECK);
  await api.get(`/registry/v2/${HOT}/`);
  await api.get("/registry/v2/check/all");
  await api.get(CHECK, { method: "HEAD" });
  await api.get(CHECK, { headers: { "X-API-KEY": "unknown" } });
  await api.get(`${CHECK}&long=${"x".repeat(5000)}`);
  await api.get("/health");
  for (const path of ["/nothing", "/registry/v3/x", "/favicon.ico"]) await api.get(path);

  expect(changes(before, await scrape())).toEqual({
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

test("requests_total counts other methods once each", async () => {
  const before = await scrape();
  await api.get(CHECK, { method: "OPTIONS" });
  await api.get(CHECK, { method: "POST" });
  await sendHttp(api.port, { method: "PROPFIND", path: CHECK });
  const counts = Object.entries(changes(before, await scrape()));
  expect(counts.filter(([series]) => series.endsWith(" 204")).map(([, more]) => more)).toEqual([1]);
  expect(counts.filter(([series]) => series.endsWith(" 405")).map(([, more]) => more)).toEqual([2]);
  expect(counts).toHaveLength(2);
});

test("requests_total counts refusals over the rate limit", async () => {
  const limited = await startApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "2" } });
  const before = await scrape(limited);
  for (let asked = 0; asked < 5; asked++) await limited.get(CHECK);
  expect(changes(before, await scrape(limited))).toEqual({
    "/registry/v2/check/all 200": 2,
    "/registry/v2/check/all 429": 3,
  });
});

test("no request makes a new series", async () => {
  const before = seriesOf(await scrape());
  for (let number = 0; number < 20; number++) {
    await api.get(`/nothing/${number}`);
    await api.get(`/registry/v2/${VAULT.slice(0, -2)}${number + 10}`);
    await api.get(`/registry/v2/no-wallet-${number}`);
    await api.get(`${CHECK}&chainId=${number}`);
    await sendHttp(api.port, { method: number % 2 === 0 ? "DELETE" : "SEARCH", path: `/registry/${number}` });
  }
  expect(seriesOf(await scrape())).toEqual(before);
  expect(new Set(before).size).toBe(before.length);
});

test("request_duration_seconds: cumulative buckets, the last has all requests, and the sum is in seconds", async () => {
  const before = await scrape();
  const startedAt = performance.now();
  for (let asked = 0; asked < 40; asked++) await api.get(CHECK);
  const seconds = (performance.now() - startedAt) / 1000;
  const after = await scrape();

  const NAME = "request_duration_seconds";
  const route = "/registry/v2/check/all";
  const grown = (name: string) => readValue(after, name, { route }) - readValue(before, name, { route });
  expect(grown(`${NAME}_count`)).toBe(40);
  expect(grown(`${NAME}_sum`)).toBeGreaterThan(0);
  expect(grown(`${NAME}_sum`)).toBeLessThan(seconds);

  for (const { labels } of samplesOf(after, `${NAME}_count`)) {
    const buckets = samplesOf(after, `${NAME}_bucket`, labels);
    const bounds = buckets.map((bucket) => (bucket.labels.le === "+Inf" ? Infinity : Number(bucket.labels.le)));
    expect(bounds).toEqual([0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, Infinity]);
    const counts = buckets.map(({ value }) => value);
    expect(counts).toEqual(counts.toSorted((a, b) => a - b));
    const answered = samplesOf(after, "requests_total", labels).reduce((sum, { value }) => sum + value, 0);
    expect(counts.at(-1)).toBe(answered);
    expect(readValue(after, `${NAME}_count`, labels)).toBe(answered);
  }
});

// Where Postgres gets no processor for a second, what waits is refused with a 503.
test("while answers are slow, questions_waiting and pool_connections show it, then the buckets", {
  retry: 2,
}, async () => {
  const own = await createSampleDatabase();
  const slow = await startApi({ databaseUrl: own, env: FRESH_FOR_A_DAY });
  expect((await slow.get(CHECK)).status).toBe(200);
  const before = await scrape(slow);
  const bucket = (samples: readonly Sample[], le: string) =>
    readValue(samples, "request_duration_seconds_bucket", { route: "/registry/v2/check/all", le });
  expect(readValue(before, "questions_waiting", { kind: "checks" })).toBe(0);

  const locker = await connect(own);
  await locker.query(`begin; lock table ${await servedSchema(locker)}.delegation_v2 in access exclusive mode`);
  const lockedAt = performance.now();
  const answers = Promise.all(Array.from({ length: 200 }, () => slow.get(CHECK)));
  const readWaiting = async () => readValue(await scrape(slow), "questions_waiting", { kind: "checks" });
  await until("questions wait", readWaiting, 60, (waiting) => waiting > 32);
  expect(readValue(await scrape(slow), "pool_connections", { pool: "checks", state: "busy" })).toBeGreaterThan(0);
  await until("an answer is slow", () => performance.now() - lockedAt > 150);
  await locker.query("rollback");
  for (const { status } of await answers) expect(status).toBe(200);

  const after = await scrape(slow);
  expect(bucket(after, "0.1") - bucket(before, "0.1")).toBeLessThan(200);
  expect(bucket(after, "+Inf") - bucket(before, "+Inf")).toBe(200);
  expect(readValue(after, "questions_waiting", { kind: "checks" })).toBe(0);
  const held = (samples: readonly Sample[]) => readValue(samples, "batch_questions_sum", { kind: "checks" });
  const statements = (samples: readonly Sample[]) => readValue(samples, "batch_questions_count", { kind: "checks" });
  // All were asked at least once, many in one statement.
  expect(held(after) - held(before)).toBeGreaterThanOrEqual(200);
  expect(statements(after) - statements(before)).toBeLessThan(held(after) - held(before));
});

test("batch_questions: a question alone is a batch of one; checks, lists and keys are counted apart", async () => {
  const database = await connect(databaseUrl);
  const { key } = await addKey(database);
  const sizes = (samples: readonly Sample[], kind: string) => [
    readValue(samples, "batch_questions_bucket", { kind, le: "1" }),
    readValue(samples, "batch_questions_count", { kind }),
    readValue(samples, "batch_questions_sum", { kind }),
  ];
  const before = await scrape();
  await api.get(CHECK, { headers: { "X-API-KEY": key } });
  await api.get(CHECK, { headers: { "X-API-KEY": key } });
  await api.get(`/registry/v2/${HOT}`);
  const after = await scrape();
  const more = (kind: string) => sizes(after, kind).map((value, index) => value - (sizes(before, kind)[index] ?? 0));
  expect(more("checks")).toEqual([2, 2, 2]);
  expect(more("lists")).toEqual([1, 1, 1]);
  expect(more("keys"), "looked up once").toEqual([1, 1, 1]);
});

test("chain metrics: blocks, and a lag that grows until the chain is not answered for", async () => {
  const own = await createSampleDatabase();
  const database = await connect(own);
  const aging = await startApi({ databaseUrl: own });
  const schema = await servedSchema(database);
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
  await until("the lags are read", readLags, 10, ([ethereum, polygon]) => ethereum >= 100 && polygon < 60);
  expect(await lagOf(chain)).toBeLessThan(160);
  const healthy = await scrape(aging);
  const { rows: blocks } = await database.query("select chain_id, number from registry.indexed_block order by 1");
  const indexed = samplesOf(healthy, "chain_indexed_block");
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
  await until("it is not answered for", readAnswered, 10, (answered) => answered === 0);
  expect(await lagOf(chain)).toBeGreaterThanOrEqual(700);
  expect(readValue(await scrape(aging), "chain_answered", { chain_id: "137" })).toBe(1);

  await database.query("update indexer.shard set caught_up = false");
  const readLagSamples = async () => samplesOf(await scrape(aging), "chain_lag_seconds");
  await until("no lag is known", readLagSamples, 60, ({ length }) => length === 0);
  const behind = await scrape(aging);
  expect(samplesOf(behind, "chain_indexed_block")).toEqual([]);
  expect(samplesOf(behind, "chain_answered").map(({ value }) => value)).toEqual([0, 0]);
  expect(readValue(behind, "chain_reached_block", chain)).toBeGreaterThanOrEqual(0);
});

test("shard_started and shard_served say which shards have started, and which are answered from", async () => {
  const both = await startApi({
    databaseUrl,
    env: { ...FRESH_FOR_A_DAY, INDEX_SCHEMAS: "registry,base_shard" },
  });
  const samples = await scrape(both);
  for (const name of ["shard_started", "shard_served"]) {
    expect(readValue(samples, name, { shard: "registry" })).toBe(1);
    expect(readValue(samples, name, { shard: "base_shard" })).toBe(0);
  }
});

test("build, memory, event loop and pool limits are reported, all under one prefix", async () => {
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../../package.json"), "utf8"));
  const samples = await scrape();
  expect(readValue(samples, "build_info", { version, node: process.versions.node })).toBe(1);
  expect(readValue(samples, "database_reachable")).toBe(1);
  expect(readValue(samples, "process_resident_memory_bytes")).toBeGreaterThan(10_000_000);
  expect(readValue(samples, "nodejs_eventloop_lag_p99_seconds")).toBeGreaterThan(0);
  expect(readValue(samples, "pool_connections_limit", { pool: "checks" })).toBe(8);
  for (const { name } of samples) expect(name).toMatch(/^delegation_registry_/);
});

test("no metric holds a wallet, a contract, a key, its name or an IP address", async () => {
  const database = await connect(databaseUrl);
  const { key } = await addKey(database, "A name of a key");
  for (const sent of [key, misspell(key)]) {
    await api.get(CHECK, { headers: { "X-API-KEY": sent } });
    await api.get(`/registry/v2/${sent}?key=${sent}`);
    await api.get(`/${sent}`);
  }
  for (const path of [...OPERATIONS.v1, ...OPERATIONS.v2, `/nothing/${VAULT}`]) await api.get(path);
  const text = (await api.metrics()).toLowerCase();
  for (const secret of [VAULT, HOT, NFT, secretOf(key), "A name of a key", "127.0.0.1"]) {
    expect(text).not.toContain(secret.toLowerCase());
  }
});

test("the metrics port answers GET and HEAD of /metrics, and nothing else", async () => {
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

test("a scrape takes less than 100 ms, and requests are answered meanwhile", async () => {
  await scrape();
  const startedAt = performance.now();
  const [texts, answer] = await Promise.all([
    Promise.all(Array.from({ length: 20 }, () => api.metrics())),
    api.get(CHECK),
  ]);
  expect((performance.now() - startedAt) / 20).toBeLessThan(100);
  expect(answer.status).toBe(200);
  for (const text of texts) expect(text).toContain("delegation_registry_build_info");
});
