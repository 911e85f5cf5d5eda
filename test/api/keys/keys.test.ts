import { once } from "node:events";
import { connect as connectTo } from "node:net";
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
  startApi,
  VAULT,
} from "../../support/api.ts";
import { sendHttp } from "../../support/http.ts";
import { addKey, endKey, misspell, secretOf } from "../../support/keys.ts";
import { connect, until } from "../../support/setup.ts";

/** One request an hour for each address; and each test is at addresses of its own. */
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
  // With everything that it would ever print.
  api = await launchApi({ databaseUrl, env: { ...STRICT, LOG_LEVEL: "trace" } });
});
afterAll(async () => {
  await api?.stop();
  await client?.end();
});

const { v1: V1, v2: V2 } = OPERATIONS;

let addresses = 0;
/** Of a client that has not asked anything yet. */
const newAddress = () => `10.1.${addresses >> 8}.${addresses++ & 255}`;

type Sender = { key?: string | undefined; from?: string; method?: string };

const ask = (path: string, { key, from = newAddress(), method = "GET" }: Sender, at = api) =>
  at.get(path, { method, headers: { "X-Forwarded-For": from, ...(key !== undefined && { "X-API-KEY": key }) } });

const limitHeaders = ({ headers }: Response) => [headers.get("RateLimit-Policy"), headers.get("RateLimit")];

const UNLIMITED = [null, null];
const LAST_ONE = ['"default";q=1;w=3600', expect.stringMatching(/^"default";r=0;t=\d+$/)];

describe("a known key lifts the limit on v2", () => {
  test.each(V2)("%s", async (path) => {
    const { key } = await addKey(client);
    const from = newAddress();
    for (const method of ["GET", "HEAD"]) {
      const responses = await Promise.all(Array.from({ length: 50 }, () => ask(path, { key, from, method })));
      for (const response of responses) {
        expect(response.status).toBe(200);
        expect(limitHeaders(response)).toEqual(UNLIMITED);
      }
    }
    // They did not count: the address still has its one request, and no second one.
    const [answer, withKey] = [await ask(path, { from }), await ask(path, { from, key })];
    expect([answer.status, withKey.status]).toEqual([200, 200]);
    expect(limitHeaders(answer)).toEqual(LAST_ONE);
    expect(await withKey.text()).toBe(await answer.text());
    expect((await ask(path, { from })).status).toBe(429);
    // Nor does it matter to the key what others at its address do.
    expect((await ask(path, { key, from })).status).toBe(200);
  });

  test.each(["x-api-key", "X-Api-Key", "X-API-KEY"])("in a header that is spelled %s", async (name) => {
    const { key } = await addKey(client);
    const response = await api.get(CHECK, { headers: { [name]: key } });
    expect([response.status, ...limitHeaders(response)]).toEqual([200, ...UNLIMITED]);
  });

  test("also of what is no good question", async () => {
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
    for (const [method, path, status] of questions) {
      for (let time = 0; time < 2; time++) {
        const response = await ask(path, { key, from, method });
        expect([response.status, ...limitHeaders(response)], `${method} ${path}`).toEqual([status, ...UNLIMITED]);
      }
    }
  });

  test("however its path is written", async () => {
    const { key } = await addKey(client);
    for (const path of [`/registry/v2/${VAULT}/`, `/registry/%76%32/${VAULT}`, `/registry/v1/../v2/${VAULT}`]) {
      const headers = { Host: "localhost", "X-API-KEY": key, "X-Forwarded-For": newAddress() };
      const answer = await sendHttp(api.port, { path, headers });
      expect([answer.status, answer.headers.ratelimit], path).toEqual([200, undefined]);
    }
  });
});

test("on v1 every key is ignored: a known, a revoked, an unknown and a misspelt one are limited like none", async () => {
  const [known, revoked] = [await addKey(client), await addKey(client)];
  await endKey(client, revoked.key);
  const keys = [undefined, known.key, revoked.key, generateKey(), misspell(known.key)];
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

test("a misspelt, an unknown and a revoked key are a 401 that says what to do, and count against the address", async () => {
  const [known, revoked] = [await addKey(client), await addKey(client)];
  await endKey(client, revoked.key);
  const refused: [string, RegExp][] = [
    [misspell(known.key), /X-API-KEY is misspelt or cut off.*Copy the key once more/],
    [known.key.slice(0, -1), /X-API-KEY is misspelt or cut off/],
    [`"${known.key}"`, /X-API-KEY is misspelt or cut off/],
    [generateKey(), /not known here.*Leave out X-API-KEY/],
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
      // No more guesses than requests, and no request on top of the guesses.
      expect((await ask(CHECK, { key, from })).status).toBe(429);
      expect((await ask(CHECK, { key: generateKey(), from })).status).toBe(429);
      expect((await ask(CHECK, { from })).status).toBe(429);
    }
  }
});

/** How often the index by which keys are looked up was read, as far as it is known: what a connection did counts at its end. */
const countLookups = async (database: pg.Client): Promise<number> => {
  const { rows } = await database.query(
    "select idx_scan from pg_stat_user_indexes where indexrelid = 'service.api_key_hash_key'::regclass",
  );
  return Number(rows[0]?.idx_scan);
};

test("a revoked key is refused within a minute by every process, and a key in use is looked up once a minute", async () => {
  // A database of its own, in which nobody else looks up keys.
  const own = await createSampleDatabase();
  const processes = [
    await startApi({ databaseUrl: own, env: FRESH_FOR_A_DAY }),
    await startApi({ databaseUrl: own, env: FRESH_FOR_A_DAY }),
  ];
  const database = await connect(own);
  const [ended, kept] = [await addKey(database), await addKey(database)];
  const before = await countLookups(database);

  // Looked up right before it is revoked: it could not be remembered for longer.
  const startedAt = performance.now();
  for (const process of processes) {
    for (const { key } of [ended, kept]) expect((await ask(CHECK, { key }, process)).status).toBe(200);
  }
  await endKey(database, ended.key);
  const revokedAt = performance.now();

  let uses = 0;
  await Promise.all(
    processes.map(async (process) => {
      let refusedAt: number | null = null;
      while (performance.now() < revokedAt + 61_000) {
        const askedAt = performance.now();
        const { status } = await ask(CHECK, { key: ended.key }, process);
        if (status === 401) refusedAt ??= askedAt;
        else expect([status, refusedAt]).toEqual([200, null]);
        expect((await ask(CHECK, { key: kept.key }, process)).status).toBe(200);
        uses += 2;
        await sleep(25);
      }
      expect(refusedAt).not.toBeNull();
      expect((refusedAt ?? Number.POSITIVE_INFINITY) - revokedAt).toBeLessThan(61_000);
    }),
  );
  const minutes = Math.ceil((performance.now() - startedAt) / 60_000);
  await Promise.all(processes.map((process) => process.stop()));
  // What was counted comes in a moment after the connections have ended.
  await until("the lookups are counted", async () => (await countLookups(database)) - before >= 2 * processes.length);
  await sleep(500);
  const lookups = (await countLookups(database)) - before;
  expect(uses).toBeGreaterThan(1000);
  expect(lookups).toBeLessThanOrEqual(2 * processes.length * minutes);
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

/** Requests with a key, some at a time. */
const use = async (at: Api, key: string, requests: number) => {
  for (let sent = 0; sent < requests; sent += 50) {
    const count = Math.min(50, requests - sent);
    const responses = await Promise.all(Array.from({ length: count }, () => ask(CHECK, { key }, at)));
    for (const response of responses) expect(response.status, await response.text()).toBe(200);
  }
};

describe("the use of a key", () => {
  test("is counted exactly, by key and day, over all processes, with few writes, also what came right before the end", async () => {
    const own = await createSampleDatabase();
    const [one, other] = [
      await startApi({ databaseUrl: own, env: FRESH_FOR_A_DAY }),
      await startApi({ databaseUrl: own, env: FRESH_FOR_A_DAY }),
    ];
    const database = await connect(own);
    const [first, second, unused] = [await addKey(database), await addKey(database), await addKey(database)];

    const startedAt = new Date();
    await Promise.all([use(one, first.key, 150), use(other, first.key, 100), use(one, second.key, 50)]);
    // By themselves within seconds.
    await until("they are written", async () => (await countRequests(database, first)) === 250, 15);
    await until("they are written", async () => (await countRequests(database, second)) === 50, 15);

    // What is no good question counts as well; what is no use of the key does not.
    expect((await ask("/registry/v2/garbage", { key: second.key }, one)).status).toBe(400);
    expect((await ask(V1[0] ?? "", { key: second.key }, one)).status).toBe(200);
    expect((await ask(CHECK, { key: misspell(second.key) }, one)).status).toBe(401);
    await Promise.all([use(one, first.key, 50), use(other, second.key, 149)]);
    const lastUsedAt = new Date();
    // At once: nothing has been written of the last ones.
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

    const countWrites = async () => {
      const { rows } = await database.query(
        "select n_tup_ins + n_tup_upd as writes from pg_stat_user_tables where relid = 'service.api_key_usage'::regclass",
      );
      return Number(rows[0]?.writes);
    };
    await until("the writes are counted", async () => (await countWrites()) >= 4);
    await sleep(500);
    expect(await countWrites()).toBeLessThanOrEqual(20);
  });

  test("is written also when the process ends right after the first request, with no connection open", async () => {
    const key = await addKey(client);
    const brief = await startApi({ databaseUrl, env: FRESH_FOR_A_DAY });
    const headers = { Host: "localhost", "X-API-KEY": key.key, Connection: "close" };
    expect((await sendHttp(brief.port, { path: CHECK, headers, agent: false })).status).toBe(200);
    await brief.stop();
    expect(await countRequests(client, key)).toBe(1);
  });

  test("is written also of a request that comes when the process is ending already", async () => {
    const key = await addKey(client);
    const ending = await startApi({ databaseUrl, env: FRESH_FOR_A_DAY });
    // Who has connected before may ask for a moment more.
    const socket = connectTo({ port: ending.port, host: "127.0.0.1" });
    await once(socket, "connect");
    const stopping = ending.stop();
    await sleep(300);
    socket.write(`GET ${CHECK} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: ${key.key}\r\n\r\n`);
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 200 /);
    await stopping;
    expect(await countRequests(client, key)).toBe(1);
  });

  test("is not lost, nor counted twice, while it cannot be written for some seconds", async () => {
    const key = await addKey(client);
    const lock = await connect(databaseUrl);
    await lock.query("begin; lock table service.api_key_usage in access exclusive mode");
    const startedAt = performance.now();
    let asked = 0;
    // Longer than from one attempt to write to the next, and a while more.
    while (performance.now() < startedAt + 8_000) {
      await use(api, key.key, 5);
      asked += 5;
      await sleep(50);
    }
    await lock.query("rollback");
    await until("all are written", async () => (await countRequests(client, key)) >= asked, 15);
    // And the next writes add nothing.
    await sleep(6_000);
    expect(await countRequests(client, key)).toBe(asked);
  });
});

test("no key is ever told: neither in an answer, nor in what the process prints, nor in its metrics", async () => {
  const [known, revoked] = [await addKey(client), await addKey(client)];
  await endKey(client, revoked.key);
  const unknown = generateKey();
  const keys = [known.key, revoked.key, unknown, misspell(known.key), `${unknown}, ${known.key}`];
  const secrets = [secretOf(known.key), secretOf(revoked.key), secretOf(unknown)];
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
  /** While the database is not as it should be; with keys that are not remembered. */
  const tryWhile = async (breakIt: string, mendIt: string) => {
    const [stored, made] = [(await addKey(client)).key, generateKey()];
    secrets.push(secretOf(stored), secretOf(made));
    await client.query(breakIt);
    try {
      await tryAll([CHECK, `/registry/v2/${VAULT}`], [stored, made]);
    } finally {
      await client.query(mendIt);
    }
  };

  // People put keys into the strangest places.
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
    "alter table service.api_key rename column hash to hush",
    "alter table service.api_key rename column hush to hash",
  );
  await tryWhile(
    "alter table service.api_key rename to api_key_elsewhere",
    "alter table service.api_key_elsewhere rename to api_key",
  );
  expect([...statuses].sort()).toEqual([200, 204, 400, 401, 404, 405, 414, 429, 500, 503]);

  // Its use cannot be written down.
  await client.query("alter table service.api_key_usage rename column requests to inquiries");
  try {
    await tryAll([CHECK], [known.key]);
    await until("it says so", async () => api.output().includes("Cannot write down how keys were used"), 15);
  } finally {
    await client.query("alter table service.api_key_usage rename column inquiries to requests");
  }
  await api.get("/health", { headers: { "X-API-KEY": known.key, "X-Request-Id": "the-last" } });
  await until("the last request is in the log", async () => api.output().includes("the-last"));
  expect(api.output()).toContain("Unexpected error");
  const metrics = await api.metrics();
  expect(metrics).toContain("delegation_registry_rate_limit_requests_total");

  for (const secret of secrets) {
    expect(told.join("\n")).not.toContain(secret);
    expect(api.output()).not.toContain(secret);
    expect(metrics).not.toContain(secret);
  }
  // Not even how it begins.
  for (const text of [told.join("\n"), api.output(), metrics]) expect(text).not.toContain(prefixOf(known.key));
});
