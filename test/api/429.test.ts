import { describe, expect } from "vitest";
import { generateKey } from "../../api/keys/api-key.ts";
import { type Api, CHECK, HOT, NFT, startTestApi, VAULT } from "../support/api.ts";
import { addKey, revokeAddedKey } from "../support/keys.ts";
import { findSamples, parseMetrics, readValue } from "../support/metrics.ts";
import { waitUntil } from "../support/setup.ts";
import { test as base } from "../support/test.ts";

const WINDOW_MS = 10_000;

/** The clock of `api`, which only tests advance. */
const clock = { now: 0 };

type Answer = { status: number; headers: Headers; body: string };
type Ask = (path?: string, init?: RequestInit) => Promise<Answer>;
type Keys = { known: string; revoked: string };

let clients = 0;

/** Creates a client with a new address. */
const createClient = (api: Api): Ask => {
  clients++;
  const address = `198.51.${100 + (clients >> 8)}.${clients & 255}`;
  return async (path = CHECK, init = {}) => {
    const headers = new Headers(init.headers);
    headers.set("X-Forwarded-For", address);
    const response = await api.get(path, { ...init, headers });
    return { status: response.status, headers: response.headers, body: await response.text() };
  };
};

const test = base
  // The default limit. Tests act as a trusted proxy, so that each can use a new client address.
  .extend("env", { RATE_LIMIT_REQUESTS: "", TRUST_PROXY: "127.0.0.1" })
  .extend("now", () => () => clock.now)
  .extend("keys", { scope: "file" }, async ({ api: _api, database }): Promise<Keys> => {
    const [known, revoked] = [(await addKey(database)).key, (await addKey(database)).key];
    await revokeAddedKey(database, revoked);
    return { known, revoked };
  })
  /** A client with a new address. */
  .extend("ask", ({ api }) => createClient(api));

const askAtOnce = (ask: Ask, times: number): Promise<Answer[]> =>
  Promise.all(Array.from({ length: times }, () => ask()));

const countAdmitted = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200).length;

const exhaust = async (ask: Ask): Promise<void> => expect(countAdmitted(await askAtOnce(ask, 25))).toBe(25);

const readRateLimit = ({ headers }: Answer) => headers.get("RateLimit");

const wallets = `delegate=${HOT}&vault=${VAULT}`;
const V1_CHECK = `/registry/v1/check/all?${wallets}`;

type Question = { path: string; status: number; init?: (keys: Keys) => RequestInit };

const withKey = (text: string): RequestInit => ({ headers: { "X-API-KEY": text } });

const COUNTED: Record<string, Question> = {
  "a check": { path: CHECK, status: 200 },
  "a check of a token": { path: `/registry/v2/check/erc721?${wallets}&contract=${NFT}&tokenId=8520`, status: 200 },
  "a list": { path: `/registry/v2/${VAULT}`, status: 200 },
  "a page of a list": { path: `/registry/v2/${VAULT}?limit=1`, status: 200 },
  "a v1 check": { path: V1_CHECK, status: 200 },
  "a v1 list": { path: `/registry/v1/${VAULT}`, status: 200 },
  "a v1 check with a key, which v1 ignores": { path: V1_CHECK, status: 200, init: ({ known }) => withKey(known) },
  "a path with a trailing slash": { path: `/registry/v2/${VAULT}/`, status: 200 },
  "a percent-encoded path": { path: `/%72egistry/%76%32/${VAULT}`, status: 200 },
  "a HEAD request": { path: CHECK, status: 200, init: () => ({ method: "HEAD" }) },
  "a 400 for a bad parameter": { path: "/registry/v2/check/all", status: 400 },
  "a 400 for a bad wallet": { path: "/registry/v1/garbage", status: 400 },
  "a 401 for a misspelt key": { path: CHECK, status: 401, init: () => withKey("unknown") },
  "a 401 for an unknown key": { path: CHECK, status: 401, init: () => withKey(generateKey()) },
  "a 401 for a revoked key": { path: CHECK, status: 401, init: ({ revoked }) => withKey(revoked) },
  "a 404 for an unknown path": { path: "/registry/v3/nothing/here", status: 404 },
  "a 404 for /registry": { path: "/registry", status: 404 },
  "a 404 on v1 with a known key": { path: "/registry/v1/no/such", status: 404, init: ({ known }) => withKey(known) },
  "a 405 for another method": { path: CHECK, status: 405, init: () => ({ method: "POST" }) },
  "a 414 for an over-long URL": { path: `${CHECK}&x=${"x".repeat(5000)}`, status: 414 },
};

describe("the first 25 requests return the remaining number, and the 26th returns 429:", () => {
  test.for(Object.entries(COUNTED))("%s", async ([, { path, status, init }], { ask, keys }) => {
    for (let remaining = 24; remaining >= 0; remaining--) {
      const answer = await ask(path, init?.(keys));
      expect(answer.status).toBe(status);
      expect(answer.headers.get("RateLimit-Policy")).toBe('"default";q=25;w=10');
      expect(readRateLimit(answer)).toBe(`"default";r=${remaining};t=10`);
    }
    expect((await ask(path, init?.(keys))).status).toBe(429);
    expect((await ask()).status).toBe(429);
  });

  test("all requests under /registry share one budget per address", async ({ ask, keys }) => {
    const questions = Object.entries(COUNTED);
    for (let asked = 0; asked < 25; asked++) {
      const [name, { path, status, init }] = questions[asked % questions.length] ?? ["", { path: "", status: 0 }];
      expect((await ask(path, init?.(keys))).status, name).toBe(status);
    }
    for (const [name, { path, init }] of questions) {
      const { status, body } = await ask(path, init?.(keys));
      expect(status, name).toBe(429);
      if (init?.(keys).method === "HEAD") expect(body).toBe("");
      else expect(JSON.parse(body), name).toMatchObject({ type: "/docs#problem-rate-limited" });
    }
  });

  test("each address has its own budget", async ({ api, ask }) => {
    await exhaust(ask);
    expect((await ask()).status).toBe(429);
    expect(readRateLimit(await createClient(api)())).toBe('"default";r=24;t=10');
  });
});

test("a 429 is a problem document with Retry-After, rate-limit and CORS headers", async ({ ask }) => {
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

  test.for(Object.entries(FREE))("%s", async ([, { path, status, init }], { ask, keys }) => {
    const expectFree = async () => {
      const answer = await ask(path, init?.(keys));
      expect(answer.status).toBe(status);
      expect([readRateLimit(answer), answer.headers.get("RateLimit-Policy")]).toEqual([null, null]);
    };
    for (let asked = 0; asked < 26; asked++) await expectFree();
    await exhaust(ask);
    expect((await ask()).status).toBe(429);
    await expectFree();
  });
});

describe("the 10-second window slides:", () => {
  test("RateLimit gives the seconds until the oldest counted request leaves the window", async ({ ask }) => {
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

  test("concurrent requests are admitted up to the limit, as soon as older ones leave the window", async ({ ask }) => {
    await askAtOnce(ask, 5);
    clock.now += 4_000;
    for (const [waited, admitted] of [
      [0, 20],
      [5_000, 0],
      [1_000, 5],
      [3_999, 0],
      [1, 20],
    ] as const) {
      clock.now += waited;
      const answers = await askAtOnce(ask, 30);
      expect([countAdmitted(answers), answers.filter(({ status }) => status === 429).length]).toEqual([
        admitted,
        30 - admitted,
      ]);
    }
  });

  test("a request is admitted by the real clock, too", async ({ databaseUrl }) => {
    const env = { RATE_LIMIT_REQUESTS: "1", RATE_LIMIT_WINDOW_SECONDS: "1" };
    const api = await startTestApi({ databaseUrl, env });
    const readStatus = async () => (await api.get("/registry/v2/check/all")).status;
    const limited = await waitUntil("a request is refused", readStatus, 10, (status) => status === 429);
    expect(limited).toBe(429);
    await waitUntil("a request is admitted", readStatus, 10, (status) => status === 400);
  });
});

describe("metrics", () => {
  const scrape = async (api: Api) => parseMetrics(await api.metrics());
  const readCounts = async (api: Api) => {
    const samples = await scrape(api);
    const labels = { route: "/registry/v2/check/all", status: "429" };
    return [
      ...["keyed", "admitted", "refused"].map((outcome) =>
        readValue(samples, "rate_limit_requests_total", { outcome }),
      ),
      findSamples(samples, "requests_total", labels)[0]?.value ?? 0,
    ];
  };

  test("count requests admitted with a key, admitted without, and refused", async ({ api, ask, keys }) => {
    const before = await readCounts(api);
    await exhaust(ask);
    for (let asked = 0; asked < 4; asked++) await ask(CHECK, withKey("unknown"));
    for (let asked = 0; asked < 3; asked++) await ask(CHECK, withKey(keys.known));
    for (const path of ["/health", "/docs", "/nothing"]) await ask(path);
    await ask(CHECK, { method: "OPTIONS" });
    const after = await readCounts(api);
    expect(after.map((count, index) => count - (before[index] ?? 0))).toEqual([3, 25, 4, 4]);
  });

  test("count the clients of the last window", async ({ api }) => {
    const readClients = async () => readValue(await scrape(api), "rate_limit_clients");
    const untilForgotten = () => waitUntil("no client is counted", readClients, 10, (count) => count === 0);
    clock.now += WINDOW_MS;
    await untilForgotten();
    await Promise.all([createClient(api)(), createClient(api)(), createClient(api)()]);
    expect(await readClients()).toBe(3);
    clock.now += WINDOW_MS;
    await untilForgotten();
  });
});
