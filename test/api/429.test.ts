import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { generateKey } from "../../api/keys/api-key.ts";
import { type Api, CHECK, createSampleDatabase, FRESH_FOR_A_DAY, HOT, launchApi, NFT, VAULT } from "../support/api.ts";
import { addKey, revokeAddedKey } from "../support/keys.ts";
import { seededRandom } from "../support/random.ts";
import { waitUntil } from "../support/setup.ts";

const WINDOW_MS = 10_000;

/** The clock of `api`, which only tests advance. */
const clock = { now: 0 };
let api: Api;
let realTimeApi: Api;
let key: string;
let revokedKey: string;
beforeAll(async () => {
  const databaseUrl = await createSampleDatabase();
  // The default limit. Tests act as a trusted proxy, so that each can use a new client address.
  const env = { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "", TRUST_PROXY: "127.0.0.1" };
  api = await launchApi({ databaseUrl, env, now: () => clock.now });
  realTimeApi = await launchApi({ databaseUrl, env });

  const database = new pg.Client(databaseUrl);
  await database.connect();
  [key, revokedKey] = [(await addKey(database)).key, (await addKey(database)).key];
  await revokeAddedKey(database, revokedKey);
  await database.end();
});
afterAll(() => Promise.all([api?.stop(), realTimeApi?.stop()]));

type Answer = { status: number; headers: Headers; body: string };
type Ask = (path?: string, init?: RequestInit) => Promise<Answer>;

let clients = 0;

/** Creates a client with a new address. */
const createClient = (asked: Api = api): Ask => {
  clients++;
  const address = `198.51.${100 + (clients >> 8)}.${clients & 255}`;
  return async (path = CHECK, init = {}) => {
    const headers = new Headers(init.headers);
    headers.set("X-Forwarded-For", address);
    const response = await asked.get(path, { ...init, headers });
    return { status: response.status, headers: response.headers, body: await response.text() };
  };
};

const askAtOnce = (ask: Ask, times: number): Promise<Answer[]> =>
  Promise.all(Array.from({ length: times }, () => ask()));

const countAdmitted = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200).length;

const exhaust = async (ask: Ask): Promise<void> => expect(countAdmitted(await askAtOnce(ask, 25))).toBe(25);

const readRateLimit = ({ headers }: Answer) => headers.get("RateLimit");

const wallets = `delegate=${HOT}&vault=${VAULT}`;
const V1_CHECK = `/registry/v1/check/all?${wallets}`;

type Question = { path: string; status: number; init?: () => RequestInit };

const withKey = (text: string): RequestInit => ({ headers: { "X-API-KEY": text } });

const COUNTED: Record<string, Question> = {
  "a check": { path: CHECK, status: 200 },
  "a check of a token": { path: `/registry/v2/check/erc721?${wallets}&contract=${NFT}&tokenId=8520`, status: 200 },
  "a list": { path: `/registry/v2/${VAULT}`, status: 200 },
  "a page of a list": { path: `/registry/v2/${VAULT}?limit=1`, status: 200 },
  "a v1 check": { path: V1_CHECK, status: 200 },
  "a v1 list": { path: `/registry/v1/${VAULT}`, status: 200 },
  "a v1 check with a key, which v1 ignores": { path: V1_CHECK, status: 200, init: () => withKey(key) },
  "a path with a trailing slash": { path: `/registry/v2/${VAULT}/`, status: 200 },
  "a percent-encoded path": { path: `/%72egistry/%76%32/${VAULT}`, status: 200 },
  "a HEAD request": { path: CHECK, status: 200, init: () => ({ method: "HEAD" }) },
  "a 400 for a bad parameter": { path: "/registry/v2/check/all", status: 400 },
  "a 400 for a bad wallet": { path: "/registry/v1/garbage", status: 400 },
  "a 401 for a misspelt key": { path: CHECK, status: 401, init: () => withKey("unknown") },
  "a 401 for an unknown key": { path: CHECK, status: 401, init: () => withKey(generateKey()) },
  "a 401 for a revoked key": { path: CHECK, status: 401, init: () => withKey(revokedKey) },
  "a 404 for an unknown path": { path: "/registry/v3/nothing/here", status: 404 },
  "a 404 for /registry": { path: "/registry", status: 404 },
  "a 404 on v1 with a known key": { path: "/registry/v1/no/such", status: 404, init: () => withKey(key) },
  "a 405 for another method": { path: CHECK, status: 405, init: () => ({ method: "POST" }) },
  "a 414 for an over-long URL": { path: `${CHECK}&x=${"x".repeat(5000)}`, status: 414 },
};

describe("the first 25 requests return the remaining number, and the 26th returns 429:", () => {
  test.for(Object.entries(COUNTED))("%s", async ([, { path, status, init }]) => {
    const ask = createClient();
    for (let remaining = 24; remaining >= 0; remaining--) {
      const answer = await ask(path, init?.());
      expect(answer.status).toBe(status);
      expect(answer.headers.get("RateLimit-Policy")).toBe('"default";q=25;w=10');
      expect(readRateLimit(answer)).toBe(`"default";r=${remaining};t=10`);
    }
    expect((await ask(path, init?.())).status).toBe(429);
    expect((await ask()).status).toBe(429);
  });

  test("all requests under /registry share one budget per address", async () => {
    const ask = createClient();
    const questions = Object.entries(COUNTED);
    for (let asked = 0; asked < 25; asked++) {
      const [name, { path, status, init }] = questions[asked % questions.length] ?? ["", { path: "", status: 0 }];
      expect((await ask(path, init?.())).status, name).toBe(status);
    }
    for (const [name, { path, init }] of questions) {
      const { status, body } = await ask(path, init?.());
      expect(status, name).toBe(429);
      if (init?.().method === "HEAD") expect(body).toBe("");
      else expect(JSON.parse(body), name).toMatchObject({ type: "/docs#problem-rate-limited" });
    }
  });

  test("each address has its own budget", async () => {
    const [ask, other] = [createClient(), createClient()];
    await exhaust(ask);
    expect((await ask()).status).toBe(429);
    expect(readRateLimit(await other())).toBe('"default";r=24;t=10');
  });
});

test("a 429 is a problem document with Retry-After, rate-limit and CORS headers", async () => {
  const ask = createClient();
  await exhaust(ask);
  clock.now += 2_500;
  const { status, headers, body } = await ask(CHECK, { headers: { Origin: "https://app.example" } });
  expect(status).toBe(429);
  expect(Object.fromEntries(headers)).toMatchObject({
    "content-type": "application/problem+json",
    "cache-control": "no-store",
    "retry-after": "8",
    "ratelimit-policy": '"default";q=25;w=10',
    ratelimit: '"default";r=0;t=8',
    "access-control-allow-origin": "*",
    "access-control-expose-headers": expect.stringMatching(/\bRateLimit-Policy,RateLimit,Retry-After\b/),
  });
  expect(headers.get("X-Indexed-Block")).toBeNull();
  expect(JSON.parse(body)).toEqual({
    type: "/docs#problem-rate-limited",
    title: "Too many requests",
    status: 429,
    detail: expect.stringMatching(/\b25 requests in 10 s\b.*\b8 s\b/),
  });
  expect((await ask("/docs")).body).toContain('id="problem-rate-limited"');
});

describe("requests that are neither limited nor counted:", () => {
  const preflight = () => ({
    method: "OPTIONS",
    headers: { Origin: "https://app.example", "Access-Control-Request-Method": "GET" },
  });
  const FREE: Record<string, Question> = {
    "a preflight": { path: CHECK, status: 204, init: preflight },
    "a preflight of v1": { path: `/registry/v1/${VAULT}`, status: 204, init: preflight },
    "an OPTIONS at an unknown path": { path: "/registry/nothing", status: 204, init: () => ({ method: "OPTIONS" }) },
    "the reference": { path: "/docs", status: 200 },
    "the OpenAPI document": { path: "/openapi.json", status: 200 },
    "/health": { path: "/health", status: 200 },
    "/ready": { path: "/ready", status: 200 },
    "/status": { path: "/status", status: 200 },
    "an unknown path elsewhere": { path: "/nothing", status: 404 },
    "a POST elsewhere": { path: "/health", status: 405, init: () => ({ method: "POST" }) },
    "a path that only begins with /registry": { path: "/registryx/v2", status: 404 },
  };

  test.for(Object.entries(FREE))("%s", async ([, { path, status, init }]) => {
    const ask = createClient();
    const expectFree = async () => {
      const answer = await ask(path, init?.());
      expect(answer.status).toBe(status);
      expect([readRateLimit(answer), answer.headers.get("RateLimit-Policy")]).toEqual([null, null]);
    };
    for (let asked = 0; asked < 26; asked++) await expectFree();
    await exhaust(ask);
    expect((await ask()).status).toBe(429);
    await expectFree();
  });
});

describe("the 10-second window slides", () => {
  test("RateLimit gives the seconds until the oldest counted request leaves the window", async () => {
    const ask = createClient();
    for (let asked = 0; asked < 25; asked++) {
      expect(readRateLimit(await ask())).toBe(
        `"default";r=${24 - asked};t=${Math.ceil((WINDOW_MS - asked * 390) / 1000)}`,
      );
      clock.now += 390;
    }
    expect(await ask()).toMatchObject({ status: 429 });
    clock.now += 250;
    expect(readRateLimit(await ask())).toBe('"default";r=0;t=1');
  });

  test("random requests get at most 25 answers in any 10 s, no 429 below 25, and an exact Retry-After", async () => {
    const random = seededRandom(import.meta.filename);
    let refusals = 0;
    for (let client = 0; client < 5; client++) {
      const ask = createClient();
      const admittedAt: number[] = [];
      /** Sends requests at the same time. @returns a refusal, if there is one */
      const burst = async (size: number) => {
        const room = 25 - admittedAt.filter((time) => time > clock.now - WINDOW_MS).length;
        const answers = await askAtOnce(ask, size);
        const refused = answers.filter(({ status }) => status === 429);
        expect([countAdmitted(answers), refused.length]).toEqual([Math.min(size, room), Math.max(0, size - room)]);
        admittedAt.push(...Array(Math.min(size, room)).fill(clock.now));
        return refused[0];
      };
      for (let step = 0; step < 40; step++) {
        const oldest = admittedAt.at(-25) ?? clock.now - WINDOW_MS;
        const untilEdge = Math.max(1, oldest + WINDOW_MS - clock.now) + random.integer(-1, 1);
        clock.now += random.pick([0, random.integer(0, 400), random.integer(0, 4_000), untilEdge]);
        const refused = await burst(random.pick([1, 2, random.integer(1, 30)]));
        if (!refused) continue;
        refusals++;
        if (random.chance(0.5)) continue;
        const seconds = Number(refused.headers.get("Retry-After"));
        clock.now += (seconds - 1) * 1000;
        expect(await burst(1), "a second before Retry-After").toMatchObject({ status: 429 });
        clock.now += 1000;
        expect(await burst(1), "after Retry-After").toBeUndefined();
      }
    }
    expect(refusals).toBeGreaterThan(25);
  });

  test("one request is admitted by the real clock when the oldest of 25 leaves the window", async () => {
    const ask = createClient(realTimeApi);
    expect((await ask()).status).toBe(200);
    await sleep(WINDOW_MS - 1_500);
    expect(countAdmitted(await askAtOnce(ask, 24))).toBe(24);
    const refused = await ask();
    expect(refused.status).toBe(429);
    const seconds = Number(refused.headers.get("Retry-After"));
    expect([1, 2]).toContain(seconds);
    // Timers may fire slightly early.
    await sleep(seconds * 1000 + 2);
    expect(countAdmitted(await askAtOnce(ask, 25))).toBe(1);
  });
});

describe("metrics", () => {
  const readMetric = async (name: string) =>
    Number(new RegExp(`^delegation_registry_rate_limit_${name} (\\d+)$`, "m").exec(await api.metrics())?.[1]);
  const readOutcomes = () =>
    Promise.all(
      ["keyed", "admitted", "refused"].map((outcome) => readMetric(`requests_total\\{outcome="${outcome}"\\}`)),
    );

  test("count requests admitted with a key, admitted without, and refused", async () => {
    const ask = createClient();
    const [keyed = 0, admitted = 0, refused = 0] = await readOutcomes();
    await exhaust(ask);
    for (let asked = 0; asked < 4; asked++) await ask(CHECK, withKey("unknown"));
    for (let asked = 0; asked < 3; asked++) await ask(CHECK, withKey(key));
    for (const path of ["/health", "/docs", "/nothing"]) await ask(path);
    await ask(CHECK, { method: "OPTIONS" });
    expect(await readOutcomes()).toEqual([keyed + 3, admitted + 25, refused + 4]);
  });

  test("count the clients of the last window", async () => {
    const untilForgotten = () =>
      waitUntil(
        "no client is counted",
        () => readMetric("clients"),
        10,
        (count) => count === 0,
      );
    clock.now += WINDOW_MS;
    await untilForgotten();
    await Promise.all([createClient()(), createClient()(), createClient()()]);
    expect(await readMetric("clients")).toBe(3);
    clock.now += WINDOW_MS;
    await untilForgotten();
  });
});
