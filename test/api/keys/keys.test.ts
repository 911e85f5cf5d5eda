import { once } from "node:events";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { generateKey, prefixOf } from "../../../api/keys/api-key.ts";
import {
  type Api,
  CHECK,
  createSampleDatabase,
  FRESH_FOR_A_DAY,
  launchApi,
  OPERATIONS,
  startTestApi,
  VAULT,
} from "../../support/api.ts";
import { sendHttp } from "../../support/http.ts";
import { addKey, extractSecret, misspellKey, revokeAddedKey } from "../../support/keys.ts";
import { connectClient, waitUntil } from "../../support/setup.ts";

/** One request an hour for each address. Tests act as a trusted proxy, and use new client addresses. */
const STRICT = {
  RATE_LIMIT_REQUESTS: "1",
  RATE_LIMIT_WINDOW_SECONDS: "3600",
  TRUST_PROXY: "127.0.0.1/32",
  ...FRESH_FOR_A_DAY,
};

let databaseUrl: string;
let client: pg.Client;
let api: Api;
beforeAll(async () => {
  databaseUrl = await createSampleDatabase();
  client = new pg.Client(databaseUrl);
  await client.connect();
  api = await launchApi({ databaseUrl, env: { ...STRICT, LOG_LEVEL: "trace" } });
});
afterAll(async () => {
  await api?.stop();
  await client?.end();
});

const { v1: V1, v2: V2 } = OPERATIONS;

let addresses = 0;
/** Returns a new client address. */
const newAddress = () => `10.1.${addresses >> 8}.${addresses++ & 255}`;

type Sender = { key?: string | undefined; from?: string; method?: string };

const ask = (path: string, { key, from = newAddress(), method = "GET" }: Sender, at = api) =>
  at.get(path, { method, headers: { "X-Forwarded-For": from, ...(key !== undefined && { "X-API-KEY": key }) } });

const limitHeaders = ({ headers }: Response) => [headers.get("RateLimit-Policy"), headers.get("RateLimit")];

const UNLIMITED = [null, null];
const LAST_ONE = ['"default";q=1;w=3600', expect.stringMatching(/^"default";r=0;t=\d+$/)];

describe("a known key lifts the limit on v2:", () => {
  test.for(V2)("%s", async (path) => {
    const { key } = await addKey(client);
    const from = newAddress();
    for (const method of ["GET", "HEAD"]) {
      const responses = await Promise.all(Array.from({ length: 10 }, () => ask(path, { key, from, method })));
      for (const response of responses) {
        expect(response.status).toBe(200);
        expect(limitHeaders(response)).toEqual(UNLIMITED);
      }
    }
    // None of them counted: the address still has its request without a key.
    const [answer, withKey] = [await ask(path, { from }), await ask(path, { from, key })];
    expect([answer.status, withKey.status]).toEqual([200, 200]);
    expect(limitHeaders(answer)).toEqual(LAST_ONE);
    expect(await withKey.text()).toBe(await answer.text());
    expect((await ask(path, { from })).status).toBe(429);
    expect((await ask(path, { key, from })).status).toBe(200);
  });

  test.for(["x-api-key", "X-Api-Key", "X-API-KEY"])("in the header %s", async (name) => {
    const { key } = await addKey(client);
    const response = await api.get(CHECK, { headers: { [name]: key } });
    expect([response.status, ...limitHeaders(response)]).toEqual([200, ...UNLIMITED]);
  });

  test("for refused requests, which do not count", async () => {
    const { key } = await addKey(client);
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
      const response = await ask(path, { key, from, method });
      expect([response.status, ...limitHeaders(response)], `${method} ${path}`).toEqual([status, ...UNLIMITED]);
    }
    expect(limitHeaders(await ask(CHECK, { from }))).toEqual(LAST_ONE);
  });

  test("for any spelling of the path", async () => {
    const { key } = await addKey(client);
    for (const path of [`/registry/v2/${VAULT}/`, `/registry/%76%32/${VAULT}`, `/registry/v1/../v2/${VAULT}`]) {
      const headers = { Host: "localhost", "X-API-KEY": key, "X-Forwarded-For": newAddress() };
      const answer = await sendHttp(api.port, { path, headers });
      expect([answer.status, answer.headers.ratelimit], path).toEqual([200, undefined]);
    }
  });
});

test("v1 ignores known, revoked, unknown and misspelt keys", async () => {
  const [known, revoked] = [await addKey(client), await addKey(client)];
  await revokeAddedKey(client, revoked.key);
  const keys = [undefined, known.key, revoked.key, generateKey(), misspellKey(known.key)];
  for (const path of V1) {
    const answers = new Set<string>();
    for (const key of keys) {
      const from = newAddress();
      const [first, second] = [await ask(path, { key, from }), await ask(path, { key, from })];
      expect([first.status, second.status], `${path} ${key}`).toEqual([200, 429]);
      expect(limitHeaders(first)).toEqual(LAST_ONE);
      answers.add(await first.text());
    }
    expect(answers.size).toBe(1);
  }
  const { rows } = await client.query("select from service.api_key_usage where api_key_id = $1", [known.id]);
  expect(rows).toEqual([]);
});

test("a misspelt, unknown or revoked key returns 401 with the reason, and counts against the address", async () => {
  const [known, revoked] = [await addKey(client), await addKey(client)];
  await revokeAddedKey(client, revoked.key);
  const refused: [string, RegExp][] = [
    [misspellKey(known.key), /X-API-KEY is misspelt or cut off.*Copy the key again/],
    [known.key.slice(0, -1), /X-API-KEY is misspelt or cut off/],
    [`"${known.key}"`, /X-API-KEY is misspelt or cut off/],
    [generateKey(), /is unknown.*Leave out X-API-KEY/],
    [revoked.key, /has been revoked.*Use another one/],
  ];
  for (const [key, detail] of refused) {
    for (const method of ["GET", "HEAD"]) {
      const from = newAddress();
      const response = await ask(CHECK, { key, from, method });
      expect(response.status).toBe(401);
      expect(limitHeaders(response)).toEqual(LAST_ONE);
      if (method === "GET") {
        const title = "Unknown API key";
        const body = { type: "/docs#problem-unknown-key", title, status: 401, detail: expect.stringMatching(detail) };
        expect(await response.json()).toEqual(body);
      }
      // Requests with and without keys share one budget.
      expect((await ask(CHECK, { key, from })).status).toBe(429);
      expect((await ask(CHECK, { key: generateKey(), from })).status).toBe(429);
      expect((await ask(CHECK, { from })).status).toBe(429);
    }
  }
});

test("every process refuses a revoked key a minute after its lookup, even if it is used all the time", async () => {
  const clock = { now: 0 };
  const start = () =>
    startTestApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "" }, now: () => clock.now });
  const processes = [await start(), await start()];
  const [ended, kept] = [await addKey(client), await addKey(client)];
  /** Reads the statuses of a key's requests to every process, over reused connections and a new one. */
  const statusesOf = async ({ key }: { key: string }) => {
    const statuses: number[] = [];
    for (const { url, port } of processes) {
      for (let time = 0; time < 3; time++) {
        statuses.push((await fetch(`${url}${CHECK}`, { headers: { "X-API-KEY": key } })).status);
      }
      const headers = { Host: "localhost", "X-API-KEY": key };
      statuses.push((await sendHttp(port, { path: CHECK, headers, agent: false })).status);
    }
    return statuses;
  };
  const allAre = (status: number) => Array(8).fill(status);

  expect(await statusesOf(ended)).toEqual(allAre(200));
  expect(await statusesOf(kept)).toEqual(allAre(200));
  await revokeAddedKey(client, ended.key);
  for (const ms of [1, 20_000, 39_998]) {
    clock.now += ms;
    expect(await statusesOf(ended), "cached").toEqual(allAre(200));
  }
  clock.now += 1;
  expect(await statusesOf(ended)).toEqual(allAre(401));
  expect(await statusesOf(kept)).toEqual(allAre(200));
});

type Counted = { day: string; requests: number; lastUsedAt: Date };

const readUsage = async (database: pg.Client, { id }: { id: string }): Promise<Counted[]> => {
  const { rows } = await database.query(
    "select day::text, requests, last_used_at from service.api_key_usage where api_key_id = $1 order by day",
    [id],
  );
  return rows.map((row) => ({ day: row.day, requests: Number(row.requests), lastUsedAt: row.last_used_at }));
};

const countRequests = async (database: pg.Client, key: { id: string }): Promise<number> =>
  (await readUsage(database, key)).reduce((sum, { requests }) => sum + requests, 0);

/** Sends requests with a key, in groups. */
const use = async (at: Api, key: string, requests: number) => {
  for (let sent = 0; sent < requests; sent += 50) {
    const count = Math.min(50, requests - sent);
    const responses = await Promise.all(Array.from({ length: count }, () => ask(CHECK, { key }, at)));
    for (const response of responses) expect(response.status, await response.text()).toBe(200);
  }
};

describe("the usage of a key", () => {
  test("is counted exactly by key and day, across processes, with few writes", async () => {
    const own = await createSampleDatabase();
    const start = () => startTestApi({ databaseUrl: own, env: FRESH_FOR_A_DAY });
    const [one, other] = [await start(), await start()];
    const database = await connectClient(own);
    const [first, second, unused] = [await addKey(database), await addKey(database), await addKey(database)];
    const untilCounted = (key: { id: string }, requests: number) =>
      waitUntil(
        `${requests} requests are stored`,
        () => countRequests(database, key),
        15,
        (count) => count === requests,
      );

    const startedAt = new Date();
    await Promise.all([use(one, first.key, 150), use(other, first.key, 100), use(one, second.key, 50)]);
    await untilCounted(first, 250);
    await untilCounted(second, 50);

    // A refused request counts. One on v1, or with a misspelt key, does not.
    expect((await ask("/registry/v2/garbage", { key: second.key }, one)).status).toBe(400);
    expect((await ask(V1[0] ?? "", { key: second.key }, one)).status).toBe(200);
    expect((await ask(CHECK, { key: misspellKey(second.key) }, one)).status).toBe(401);
    await Promise.all([use(one, first.key, 50), use(other, second.key, 149)]);
    const lastUsedAt = new Date();
    // A stopping process writes the remaining counts.
    await Promise.all([one.stop(), other.stop()]);

    const days = [startedAt, lastUsedAt].map((date) => date.toISOString().slice(0, 10));
    for (const [key, requests] of [
      [first, 300],
      [second, 200],
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

  test("is stored when the process stops right after the first request, without an open connection", async () => {
    const key = await addKey(client);
    const brief = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
    const headers = { Host: "localhost", "X-API-KEY": key.key, Connection: "close" };
    expect((await sendHttp(brief.port, { path: CHECK, headers, agent: false })).status).toBe(200);
    await brief.stop();
    expect(await countRequests(client, key)).toBe(1);
  });

  test("is stored for a request during shutdown", async () => {
    const key = await addKey(client);
    const ending = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
    // An open connection may send one more request.
    const socket = connect({ port: ending.port, host: "127.0.0.1" });
    await once(socket, "connect");
    const stopping = ending.stop();
    await sleep(300);
    socket.write(`GET ${CHECK} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: ${key.key}\r\n\r\n`);
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 /);
    await stopping;
    expect(await countRequests(client, key)).toBe(1);
  });
});

test("no response, log line or metric contains a key, even when the database fails", async () => {
  const [known, revoked] = [await addKey(client), await addKey(client)];
  await revokeAddedKey(client, revoked.key);
  const unknown = generateKey();
  const keys = [known.key, revoked.key, unknown, misspellKey(known.key), `${unknown}, ${known.key}`];
  const secrets = [extractSecret(known.key), extractSecret(revoked.key), extractSecret(unknown)];
  const told: string[] = [];
  const statuses = new Set<number>();

  const tryAll = async (paths: readonly string[], tried: readonly string[], methods = ["GET"]) => {
    for (const path of paths) {
      for (const key of tried) {
        for (const method of methods) {
          const response = await ask(path, { key, method });
          statuses.add(response.status);
          told.push(response.statusText, ...[...response.headers].flat(), await response.text());
        }
      }
    }
  };
  /** Sends requests with keys that are not cached while the database is broken. */
  const tryWhile = async (breakIt: string, mendIt: string) => {
    const [stored, made] = [(await addKey(client)).key, generateKey()];
    secrets.push(extractSecret(stored), extractSecret(made));
    await client.query(breakIt);
    try {
      await tryAll([CHECK, `/registry/v2/${VAULT}`], [stored, made]);
    } finally {
      await client.query(mendIt);
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
  for (let request = 0; request < 2; request++) {
    const response = await ask(CHECK, { key: unknown, from: "10.9.9.9" });
    statuses.add(response.status);
    told.push(await response.text());
  }
  await tryWhile(
    "alter table service.api_key alter column hash type bytea using hash::bytea",
    "alter table service.api_key alter column hash type text using convert_from(hash, 'utf8')",
  );
  await tryWhile(
    "alter table service.api_key rename to api_key_elsewhere",
    "alter table service.api_key_elsewhere rename to api_key",
  );
  expect([...statuses].sort()).toEqual([200, 204, 400, 401, 404, 405, 414, 429, 500, 503]);

  await client.query("alter table service.api_key_usage rename column requests to inquiries");
  try {
    await tryAll([CHECK], [known.key]);
    await waitUntil("the failure is logged", () => api.output().includes("Cannot store API key usage"), 15);
  } finally {
    await client.query("alter table service.api_key_usage rename column inquiries to requests");
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
