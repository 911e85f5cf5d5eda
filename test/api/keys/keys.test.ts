import { once } from "node:events";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import type pg from "pg";
import { describe, expect } from "vitest";
import { generateKey, prefixOf } from "../../../api/keys/api-key.ts";
import {
  type Api,
  CHECK,
  createSampleDatabase,
  FRESH_FOR_A_DAY,
  OPERATIONS,
  startTestApi,
  VAULT,
} from "../../support/api.ts";
import { sendHttp } from "../../support/http.ts";
import { addKey, extractSecret, misspellKey, revokeAddedKey } from "../../support/keys.ts";
import { connectClient, waitUntil } from "../../support/setup.ts";
import { test as base } from "../../support/test.ts";

// One request an hour for each address. Tests act as a trusted proxy, and use new client addresses.
const STRICT = { RATE_LIMIT_REQUESTS: "1", RATE_LIMIT_WINDOW_SECONDS: "3600", TRUST_PROXY: "127.0.0.1/32" };
/** Clock of limits and cached keys. */
const clock = { now: 0 };
const test = base.extend("env", { ...STRICT, LOG_LEVEL: "trace" }).extend("now", () => () => clock.now);

const { v1: V1, v2: V2 } = OPERATIONS;

let addresses = 0;
/** Returns a new client address. */
const newAddress = () => `10.1.${addresses >> 8}.${addresses++ & 255}`;

type Sender = { key?: string | undefined; from?: string; method?: string };

const ask = (api: Api, path: string, { key, from = newAddress(), method = "GET" }: Sender) =>
  api.get(path, { method, headers: { "X-Forwarded-For": from, ...(key !== undefined && { "X-API-KEY": key }) } });

const limitHeaders = ({ headers }: Response) => [headers.get("RateLimit-Policy"), headers.get("RateLimit")];

const UNLIMITED = [null, null];
const LAST_ONE = ['"default";q=1;w=3600', expect.stringMatching(/^"default";r=0;t=\d+$/)];

describe("a known key lifts the limit on v2:", () => {
  test.for(V2)("%s", async (path, { api, database }) => {
    const { key } = await addKey(database);
    const from = newAddress();
    for (const method of ["GET", "HEAD"]) {
      const responses = await Promise.all(Array.from({ length: 10 }, () => ask(api, path, { key, from, method })));
      for (const response of responses) {
        expect(response.status).toBe(200);
        expect(limitHeaders(response)).toEqual(UNLIMITED);
      }
    }
    // None of them counted: the address still has its request without a key.
    const [answer, withKey] = [await ask(api, path, { from }), await ask(api, path, { from, key })];
    expect([answer.status, withKey.status]).toEqual([200, 200]);
    expect(limitHeaders(answer)).toEqual(LAST_ONE);
    expect(await withKey.text()).toBe(await answer.text());
    expect((await ask(api, path, { from })).status).toBe(429);
    expect((await ask(api, path, { key, from })).status).toBe(200);
  });

  test("for refused requests, which do not count", async ({ api, database }) => {
    const { key } = await addKey(database);
    const from = newAddress();
    const questions: [string, string, number][] = [
      ["GET", "/registry/v2/check/all?to=garbage", 400],
      ["HEAD", "/registry/v2/check/all?to=garbage", 400],
      ["GET", "/registry/v2/garbage", 400],
      ["GET", "/registry/v2/check/nothing/there", 404],
      ["POST", CHECK, 405],
      ["GET", `${CHECK}&${"x".repeat(5000)}`, 414],
    ];
    for (const [method, path, status] of [...questions, ...questions]) {
      const response = await ask(api, path, { key, from, method });
      expect([response.status, ...limitHeaders(response)], `${method} ${path}`).toEqual([status, ...UNLIMITED]);
    }
    expect(limitHeaders(await ask(api, CHECK, { from }))).toEqual(LAST_ONE);
  });

  test("for any spelling of the path", async ({ api, database }) => {
    const { key } = await addKey(database);
    for (const path of [`/registry/v2/${VAULT}/`, `/registry/%76%32/${VAULT}`, `/registry/v1/../v2/${VAULT}`]) {
      const headers = { Host: "localhost", "X-API-KEY": key, "X-Forwarded-For": newAddress() };
      const answer = await sendHttp(api.port, { path, headers });
      expect([answer.status, answer.headers.ratelimit], path).toEqual([200, undefined]);
    }
  });
});

test("every process refuses a revoked key a minute after its lookup, even if it is used all the time", async ({
  api,
  env,
  database,
  databaseUrl,
}) => {
  const other = await startTestApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, ...env }, now: () => clock.now });
  const [ended, kept] = [await addKey(database), await addKey(database)];
  /** Reads the statuses of a key's requests to every process, over reused connections and a new one. */
  const statusesOf = async ({ key }: { key: string }) => {
    const statuses: number[] = [];
    for (const process of [api, other]) {
      for (let time = 0; time < 3; time++) statuses.push((await ask(process, CHECK, { key })).status);
      const headers = { "X-API-KEY": key, "X-Forwarded-For": newAddress() };
      statuses.push((await sendHttp(process.port, { path: CHECK, headers, agent: false })).status);
    }
    return statuses;
  };
  const allAre = (status: number) => Array(8).fill(status);

  expect(await statusesOf(ended)).toEqual(allAre(200));
  expect(await statusesOf(kept)).toEqual(allAre(200));
  await revokeAddedKey(database, ended.key);
  for (const ms of [1, 20_000, 39_998]) {
    clock.now += ms;
    expect(await statusesOf(ended), "cached").toEqual(allAre(200));
  }
  clock.now += 1;
  expect(await statusesOf(ended)).toEqual(allAre(401));
  expect(await statusesOf(kept)).toEqual(allAre(200));
});

describe("the usage of a key", () => {
  const readUsage = async (database: pg.Client, { id }: { id: string }) => {
    const { rows } = await database.query(
      `select day::text, requests::int, last_used_at as "lastUsedAt" from service.api_key_usage
       where api_key_id = $1 order by day`,
      [id],
    );
    return rows as { day: string; requests: number; lastUsedAt: Date }[];
  };
  const countRequests = async (database: pg.Client, key: { id: string }): Promise<number> =>
    (await readUsage(database, key)).reduce((sum, { requests }) => sum + requests, 0);

  /** Sends requests with a key, ten at a time. */
  const use = async (api: Api, key: string, requests: number) => {
    for (let sent = 0; sent < requests; sent += 10) {
      const responses = await Promise.all(Array.from({ length: 10 }, () => ask(api, CHECK, { key })));
      for (const response of responses) expect(response.status, await response.text()).toBe(200);
    }
  };

  test("is counted exactly by key and day, across processes, with few writes", async () => {
    const databaseUrl = await createSampleDatabase();
    const start = () => startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
    const [one, other] = [await start(), await start()];
    const database = await connectClient(databaseUrl);
    const [first, second, unused] = [await addKey(database), await addKey(database), await addKey(database)];
    const untilCounted = (key: { id: string }, requests: number) =>
      waitUntil(
        `${requests} requests are stored`,
        () => countRequests(database, key),
        15,
        (count) => count === requests,
      );

    const startedAt = new Date();
    await Promise.all([use(one, first.key, 60), use(other, first.key, 40), use(one, second.key, 20)]);
    await untilCounted(first, 100);
    await untilCounted(second, 20);

    // A refused request counts. One on v1, or with a misspelt key, does not.
    expect((await ask(one, "/registry/v2/garbage", { key: second.key })).status).toBe(400);
    expect((await ask(one, V1[0] ?? "", { key: second.key })).status).toBe(200);
    expect((await ask(one, CHECK, { key: misspellKey(second.key) })).status).toBe(401);
    await Promise.all([use(one, first.key, 50), use(other, second.key, 40)]);
    const lastUsedAt = new Date();
    // A stopping process writes the remaining counts.
    await Promise.all([one.stop(), other.stop()]);

    const days = [startedAt, lastUsedAt].map((date) => date.toISOString().slice(0, 10));
    for (const [key, requests] of [
      [first, 150],
      [second, 61],
    ] as const) {
      expect(await countRequests(database, key)).toBe(requests);
      const counted = await readUsage(database, key);
      for (const { day } of counted) expect(days).toContain(day);
      const last = counted.at(-1)?.lastUsedAt.getTime();
      expect(last).toBeGreaterThan(startedAt.getTime());
      expect(last).toBeLessThanOrEqual(lastUsedAt.getTime());
    }
    expect(await readUsage(database, unused)).toEqual([]);

    const { rows } = await database.query("select sum(batch) as writes from service.usage_writer");
    expect(Number(rows[0]?.writes)).toBeGreaterThanOrEqual(4);
    expect(Number(rows[0]?.writes)).toBeLessThanOrEqual(20);
  });

  test("is stored when the process stops right after the first request, and for a request during its shutdown", async ({
    database,
    databaseUrl,
  }) => {
    const api = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
    const [brief, late] = [await addKey(database), await addKey(database)];
    const headers = { "X-API-KEY": brief.key, Connection: "close" };
    expect((await sendHttp(api.port, { path: CHECK, headers, agent: false })).status).toBe(200);
    // An open connection may send one more request.
    const socket = connect({ port: api.port, host: "127.0.0.1" });
    await once(socket, "connect");
    const stopping = api.stop();
    await waitUntil("no connection is accepted", () =>
      api.get("/health").then(
        () => false,
        () => true,
      ),
    );
    socket.write(`GET ${CHECK} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: ${late.key}\r\n\r\n`);
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 /);
    await stopping;
    expect([await countRequests(database, brief), await countRequests(database, late)]).toEqual([1, 1]);
  });
});

test("no response, log line or metric contains a key or its name, even when the database fails", async ({
  api,
  database,
}) => {
  const [known, revoked] = [await addKey(database, "A name of a key"), await addKey(database)];
  await revokeAddedKey(database, revoked.key);
  const unknown = generateKey();
  const keys = [known.key, revoked.key, unknown, misspellKey(known.key), `${unknown}, ${known.key}`];
  const secrets = ["A name of a key", ...[known.key, revoked.key, unknown].map(extractSecret)];
  const told: string[] = [];
  const statuses = new Set<number>();

  const tryAll = async (paths: readonly string[], tried: readonly string[], methods = ["GET"], from?: string) => {
    for (const path of paths) {
      for (const key of tried) {
        for (const method of methods) {
          const response = await ask(api, path, { key, method, ...(from && { from }) });
          statuses.add(response.status);
          told.push(response.statusText, ...[...response.headers].flat(), await response.text());
        }
      }
    }
  };
  /** Sends requests with keys that are not cached while the database is broken. */
  const tryWhile = async (breakIt: string, mendIt: string) => {
    const [stored, made] = [(await addKey(database)).key, generateKey()];
    secrets.push(extractSecret(stored), extractSecret(made));
    await database.query(breakIt);
    try {
      await tryAll([CHECK, `/registry/v2/${VAULT}`], [stored, made]);
    } finally {
      await database.query(mendIt);
    }
  };

  // Keys in the wrong place.
  const elsewhere = [
    `/registry/v2/garbage?key=${known.key}`,
    `/registry/v2/${known.key}`,
    `/registry/v2/check/all?to=${known.key}`,
    `/${unknown}`,
    "/health",
    "/status",
    `${CHECK}&${"x".repeat(5000)}`,
  ];
  await tryAll([...V1, ...V2], keys, ["GET", "HEAD", "OPTIONS", "POST"]);
  await tryAll(elsewhere, keys);
  await tryAll([CHECK, CHECK], [unknown], ["GET"], "10.9.9.9");
  await tryWhile(
    "alter table service.api_key alter column hash type bytea using hash::bytea",
    "alter table service.api_key alter column hash type text using convert_from(hash, 'utf8')",
  );
  await tryWhile(
    "alter table service.api_key rename to api_key_elsewhere",
    "alter table service.api_key_elsewhere rename to api_key",
  );
  expect([...statuses].sort()).toEqual([200, 204, 400, 401, 404, 405, 414, 429, 500, 503]);

  await database.query("alter table service.api_key_usage rename column requests to inquiries");
  try {
    await tryAll([CHECK], [known.key]);
    await waitUntil("the failure is logged", () => api.output().includes("Cannot store API key usage"), 15);
  } finally {
    await database.query("alter table service.api_key_usage rename column inquiries to requests");
  }
  await api.get("/health", { headers: { "X-API-KEY": known.key, "X-Request-Id": "the-last" } });
  await waitUntil("the last request is in the log", () => api.output().includes("the-last"));
  expect(api.output()).toContain("Unexpected error");
  const metrics = await api.metrics();
  expect(metrics).toContain("delegation_registry_rate_limit_requests_total");

  for (const secret of secrets) {
    expect(told.join("\n")).not.toContain(secret);
    expect(api.output()).not.toContain(secret);
    expect(metrics).not.toContain(secret);
  }
  for (const text of [told.join("\n"), api.output(), metrics]) expect(text).not.toContain(prefixOf(known.key));
});
