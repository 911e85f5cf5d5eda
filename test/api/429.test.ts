import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { generateKey, hashKey, prefixOf } from "../../api/keys/api-key.ts";
import { type Api, CHECK, createSampleDatabase, FRESH_FOR_A_DAY, HOT, launchApi, NFT, VAULT } from "../support/api.ts";
import { seededRandom } from "../support/random.ts";
import { until } from "../support/setup.ts";

const WINDOW_MS = 10_000;
const SHORT_WINDOW_MS = 2_000;
const PATTERN_MS = 25_000;

const KEY = generateKey();
const REVOKED_KEY = generateKey();

/** With the limit that it has when nothing is set. */
let api: Api;
/** The same in a shorter window, where a test has to see it pass. */
let hasty: Api;
beforeAll(async () => {
  const databaseUrl = await createSampleDatabase();
  // What this test says of a client's address is believed: each test can be a client that has not asked before.
  const env = { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "", TRUST_PROXY: "127.0.0.1" };
  api = await launchApi({ databaseUrl, env });
  hasty = await launchApi({ databaseUrl, env: { ...env, RATE_LIMIT_WINDOW_SECONDS: String(SHORT_WINDOW_MS / 1000) } });

  const database = new pg.Client(databaseUrl);
  await database.connect();
  for (const [key, revokedAt] of [
    [KEY, null],
    [REVOKED_KEY, new Date()],
  ] as const) {
    await database.query("insert into service.api_key (name, prefix, hash, revoked_at) values ('test', $1, $2, $3)", [
      prefixOf(key),
      hashKey(key),
      revokedAt,
    ]);
  }
  await database.end();
});
afterAll(() => Promise.all([api?.stop(), hasty?.stop()]));

type Answer = { status: number; headers: Headers; body: string };
type Ask = (path?: string, init?: RequestInit) => Promise<Answer>;

let clients = 0;

/** Asks as somebody who has not asked before. */
const newClient = (asked: Api = api): Ask => {
  clients++;
  const address = `198.51.${100 + (clients >> 8)}.${clients & 255}`;
  return async (path = CHECK, init = {}) => {
    const headers = new Headers(init.headers);
    headers.set("X-Forwarded-For", address);
    const response = await asked.get(path, { ...init, headers });
    return { status: response.status, headers: response.headers, body: await response.text() };
  };
};

/** What an answer says of the limit; null if nothing. */
const rateOf = ({ headers }: Answer): { remaining: number; seconds: number } | null => {
  const text = headers.get("RateLimit");
  if (text === null) return null;
  const [, remaining, seconds] = /^"default";r=(0|[1-9]\d*);t=([1-9]\d*)$/.exec(text) ?? [];
  if (!remaining || !seconds) throw new Error(`RateLimit is ${text}`);
  return { remaining: Number(remaining), seconds: Number(seconds) };
};

const askAtOnce = (ask: Ask, times: number): Promise<Answer[]> =>
  Promise.all(Array.from({ length: times }, () => ask()));

/** Uses up what a client has. */
const exhaust = async (ask: Ask): Promise<void> => {
  const answers = await askAtOnce(ask, 25);
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
};

/** Timers may end a moment early. */
const waitUntil = async (time: number): Promise<void> => {
  while (performance.now() < time) await sleep(Math.max(1, time - performance.now()));
};

const wallets = `delegate=${HOT}&vault=${VAULT}`;
const V1_CHECK = `/registry/v1/check/all?${wallets}`;

type Question = { path: string; status: number; init?: RequestInit };

const withKey = (key: string): RequestInit => ({ headers: { "X-API-KEY": key } });

const ANSWERED: Record<string, Question> = {
  "a check": { path: CHECK, status: 200 },
  "a check of a token": { path: `/registry/v2/check/erc721?${wallets}&contract=${NFT}&tokenId=8520`, status: 200 },
  "a list": { path: `/registry/v2/${VAULT}`, status: 200 },
  "a page of a list": { path: `/registry/v2/${VAULT}?limit=1`, status: 200 },
  "a v1 check": { path: V1_CHECK, status: 200 },
  "a v1 list": { path: `/registry/v1/${VAULT}`, status: 200 },
  "a v1 check with a key, which v1 ignores": { path: V1_CHECK, status: 200, init: withKey(KEY) },
  "a path with a slash at its end": { path: `/registry/v2/${VAULT}/`, status: 200 },
  "a path in other letters": { path: `/%72egistry/%76%32/${VAULT}`, status: 200 },
};
const HEAD: Question = { path: CHECK, status: 200, init: { method: "HEAD" } };

const REFUSED: Record<string, Question> = {
  "400, a bad parameter": { path: "/registry/v2/check/all", status: 400 },
  "400, a bad wallet": { path: "/registry/v1/garbage", status: 400 },
  "401, a misspelt key": { path: CHECK, status: 401, init: withKey("unknown") },
  "401, a key that nobody has": { path: CHECK, status: 401, init: withKey(generateKey()) },
  "401, a revoked key": { path: CHECK, status: 401, init: withKey(REVOKED_KEY) },
  "404, an unknown path": { path: "/registry/v3/nothing/here", status: 404 },
  "404, no path": { path: "/registry", status: 404 },
  "404, a known key at an unknown path of v1": { path: "/registry/v1/no/such", status: 404, init: withKey(KEY) },
  "405, another method": { path: CHECK, status: 405, init: { method: "POST" } },
  "414, an over-long URL": { path: `${CHECK}&x=${"x".repeat(5000)}`, status: 414 },
};

describe("an answer says how many more are left, and when there is room for another", () => {
  test.each(Object.entries({ ...ANSWERED, "a HEAD": HEAD, ...REFUSED }))("%s", async (_, { path, status, init }) => {
    const ask = newClient();
    for (const remaining of [24, 23]) {
      const answer = await ask(path, init);
      expect(answer.status).toBe(status);
      expect(answer.headers.get("RateLimit-Policy")).toBe('"default";q=25;w=10');
      expect(rateOf(answer)).toMatchObject({ remaining });
    }
  });

  test("the policy tells the limit that is set", async () => {
    const { headers } = await newClient(hasty)();
    expect(headers.get("RateLimit-Policy")).toBe('"default";q=25;w=2');
    expect(headers.get("RateLimit")).toBe('"default";r=24;t=2');
  });

  test("from 24 down to 0, with the time until the first of them leaves the window", async () => {
    const ask = newClient();
    let first: { sentAt: number; answeredAt: number } | undefined;
    for (let remaining = 24; remaining >= 0; remaining--) {
      const sentAt = performance.now();
      const answer = await ask();
      const answeredAt = performance.now();
      first ??= { sentAt, answeredAt };
      expect(answer.status).toBe(200);
      const rate = rateOf(answer);
      expect(rate).toMatchObject({ remaining });
      expect(rate?.seconds).toBeGreaterThanOrEqual(Math.ceil((WINDOW_MS - (answeredAt - first.sentAt)) / 1000));
      expect(rate?.seconds).toBeLessThanOrEqual(Math.ceil((WINDOW_MS - Math.max(0, sentAt - first.answeredAt)) / 1000));
      if (remaining > 20) await sleep(400);
    }
    const refused = await ask();
    expect(refused.status).toBe(429);
    expect(rateOf(refused)).toMatchObject({ remaining: 0 });
  });
});

describe("the 26th request is refused", () => {
  test("with a problem document that says when to ask again", async () => {
    const ask = newClient();
    await exhaust(ask);
    const answer = await ask(CHECK, { headers: { Origin: "https://app.example" } });
    expect(answer.status).toBe(429);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": "application/problem+json",
      "cache-control": "no-store",
      "retry-after": String(rateOf(answer)?.seconds),
      "ratelimit-policy": '"default";q=25;w=10',
      "access-control-allow-origin": "*",
      "access-control-expose-headers": expect.stringMatching(/\bRateLimit-Policy,RateLimit,Retry-After\b/),
    });
    expect(JSON.parse(answer.body)).toEqual({
      type: "/docs#problem-rate-limited",
      title: "Too many requests",
      status: 429,
      detail: expect.stringMatching(/\b25 requests in 10 s\b.*\b\d+ s\b/),
    });
    expect(rateOf(answer)?.remaining).toBe(0);
    expect(answer.headers.get("X-Indexed-Block")).toBeNull();
  });

  test("at the place that its type points to, the problem is explained", async () => {
    const { body } = await newClient()("/docs");
    expect(body).toContain('id="problem-rate-limited"');
  });

  test("whatever it asks: everything under /registry has one budget", async () => {
    const ask = newClient();
    await exhaust(ask);
    for (const [name, { path, init }] of Object.entries({ ...ANSWERED, ...REFUSED })) {
      const { status, body } = await ask(path, init);
      expect(status, name).toBe(429);
      expect(JSON.parse(body), name).toMatchObject({ type: "/docs#problem-rate-limited" });
    }
    expect(await ask(HEAD.path, HEAD.init)).toMatchObject({ status: 429, body: "" });
  });

  test("also when v1 and v2 were asked in turns", async () => {
    const ask = newClient();
    for (let asked = 0; asked < 25; asked++) expect((await ask(asked % 2 ? V1_CHECK : CHECK)).status).toBe(200);
    expect([(await ask(V1_CHECK)).status, (await ask(CHECK)).status]).toEqual([429, 429]);
  });

  test.each(Object.entries({ "a HEAD": HEAD, ...REFUSED }))(
    "also when the others were: %s",
    async (_, { path, status, init }) => {
      const ask = newClient();
      for (let remaining = 24; remaining >= 0; remaining--) {
        const answer = await ask(path, init);
        expect(answer.status).toBe(status);
        expect(rateOf(answer)).toMatchObject({ remaining });
      }
      expect((await ask()).status).toBe(429);
      expect((await ask(path, init)).status, "even as it would be refused anyway").toBe(429);
    },
  );

  test("but nobody else's", async () => {
    const [ask, other] = [newClient(), newClient()];
    await exhaust(ask);
    expect((await ask()).status).toBe(429);
    const answer = await other();
    expect(answer.status).toBe(200);
    expect(rateOf(answer)).toMatchObject({ remaining: 24 });
  });
});

describe("these do not count, and are answered to those who are over the limit", () => {
  const preflight = {
    method: "OPTIONS",
    headers: { Origin: "https://app.example", "Access-Control-Request-Method": "GET" },
  };
  const FREE: Record<string, Question> = {
    "a preflight": { path: CHECK, status: 204, init: preflight },
    "a preflight of v1": { path: `/registry/v1/${VAULT}`, status: 204, init: preflight },
    "an OPTIONS at an unknown path": { path: "/registry/nothing", status: 204, init: { method: "OPTIONS" } },
    "the reference": { path: "/docs", status: 200 },
    "its document": { path: "/openapi.json", status: 200 },
    "/health": { path: "/health", status: 200 },
    "/ready": { path: "/ready", status: 200 },
    "/status": { path: "/status", status: 200 },
    "an unknown path elsewhere": { path: "/nothing", status: 404 },
    "a POST elsewhere": { path: "/health", status: 405, init: { method: "POST" } },
    "a path that only begins like the registry's": { path: "/registryx/v2", status: 404 },
  };

  test.each(Object.entries(FREE))("%s", async (_, { path, status, init }) => {
    const ask = newClient();
    const expectFree = async () => {
      const answer = await ask(path, init);
      expect(answer.status).toBe(status);
      expect(answer.headers.get("RateLimit")).toBeNull();
      expect(answer.headers.get("RateLimit-Policy")).toBeNull();
    };
    for (let asked = 0; asked < 30; asked++) await expectFree();
    expect(rateOf(await ask())).toMatchObject({ remaining: 24 });

    for (let asked = 0; asked < 24; asked++) await ask();
    expect((await ask()).status).toBe(429);
    await expectFree();
  });
});

describe("waiting", () => {
  test("as long as Retry-After says is always enough, whenever the requests came", async () => {
    const random = seededRandom("api/429.test.ts");
    const told: number[] = [];
    const comeAndGo = async (ask: Ask) => {
      for (let round = 0; round < 3; round++) {
        await askAtOnce(ask, random.integer(1, 25));
        await sleep(random.integer(0, SHORT_WINDOW_MS));
        let answer: Answer;
        do {
          await askAtOnce(ask, 25);
          answer = await ask();
        } while (answer.status === 200);
        const answeredAt = performance.now();
        expect(answer.status).toBe(429);
        const seconds = Number(answer.headers.get("Retry-After"));
        expect([1, 2]).toContain(seconds);
        told.push(seconds);
        await waitUntil(answeredAt + seconds * 1000);
        expect((await ask()).status, `after ${seconds} s`).toBe(200);
      }
    };
    await Promise.all(Array.from({ length: 12 }, () => comeAndGo(newClient(hasty))));
    expect(new Set(told), "it is not always the same").toEqual(new Set([1, 2]));
  });

  test("is not prolonged by asking all the time: what is refused does not count", async () => {
    const ask = newClient(hasty);
    const startedAt = performance.now();
    await exhaust(ask);
    const exhaustedAt = performance.now();
    let refusals = 0;
    for (;;) {
      const sentAt = performance.now();
      const { status } = await ask();
      if (status === 200) break;
      expect(status).toBe(429);
      expect(sentAt, "all are over").toBeLessThan(exhaustedAt + SHORT_WINDOW_MS);
      refusals++;
    }
    expect(performance.now()).toBeGreaterThanOrEqual(startedAt + SHORT_WINDOW_MS);
    expect(refusals).toBeGreaterThan(25);
  });
});

// When the server decides is not known here, only that it is between the question and the answer. What
// is expected below is true whenever that was.

type Exchange = { sentAt: number; answeredAt: number; status: number };

/** Asks, and writes down when. */
const record = async (exchanges: Exchange[], ask: Ask, init?: RequestInit): Promise<Answer> => {
  const sentAt = performance.now();
  const answer = await ask(CHECK, init);
  exchanges.push({ sentAt, answeredAt: performance.now(), status: answer.status });
  return answer;
};

/** That the limit was kept to, and nobody refused who had not used it up. */
const expectExact = (exchanges: readonly Exchange[], windowMs: number): void => {
  const admitted = exchanges.filter(({ status }) => status === 200);
  const refused = exchanges.filter(({ status }) => status === 429);
  expect(admitted.length + refused.length).toBe(exchanges.length);
  for (const { sentAt: start } of admitted) {
    const within = admitted.filter(({ sentAt, answeredAt }) => sentAt >= start && answeredAt < start + windowMs);
    expect(within.length, `admitted from ${start} on`).toBeLessThanOrEqual(25);
  }
  for (const { sentAt, answeredAt } of refused) {
    const counted = admitted.filter((other) => other.answeredAt > sentAt - windowMs && other.sentAt < answeredAt);
    expect(counted.length, `admitted before the refusal at ${sentAt}`).toBeGreaterThanOrEqual(25);
  }
};

describe("in no window of that length are there 26, wherever it begins", () => {
  test("for 25 s of random arrivals", async () => {
    const random = seededRandom("api/429.test.ts");
    const endsAt = performance.now() + PATTERN_MS;
    const PATTERNS: Record<string, (exchanges: readonly Exchange[]) => { burst: number; pauseMs: number }> = {
      "all the time": () => ({ burst: 1, pauseMs: random.integer(0, 200) }),
      "in bursts": () => ({ burst: random.integer(1, 30), pauseMs: random.integer(0, 4000) }),
      "seldom, then a lot": () => ({ burst: random.pick([1, 1, 1, 40]), pauseMs: random.integer(200, 1500) }),
      // As soon as there may be room again, and a little before.
      "at the edge": (exchanges) => {
        const oldest = exchanges.filter(({ status }) => status === 200).at(-25);
        const edge = (oldest?.sentAt ?? -Infinity) + WINDOW_MS - performance.now();
        return { burst: random.integer(1, 25), pauseMs: Math.max(0, edge) + random.integer(-20, 20) };
      },
    };
    const play = async (pattern: (exchanges: readonly Exchange[]) => { burst: number; pauseMs: number }) => {
      const ask = newClient();
      const exchanges: Exchange[] = [];
      while (performance.now() < endsAt) {
        const { burst, pauseMs } = pattern(exchanges);
        await Promise.all(Array.from({ length: burst }, () => record(exchanges, ask)));
        await sleep(Math.max(0, Math.min(pauseMs, endsAt - performance.now())));
      }
      return exchanges;
    };
    const played = await Promise.all(Object.values(PATTERNS).map(play));

    for (const [index, name] of Object.keys(PATTERNS).entries()) {
      const exchanges = played[index] ?? [];
      const admitted = exchanges.filter(({ status }) => status === 200).length;
      console.log(`${name}: ${admitted} admitted, ${exchanges.length - admitted} refused`);
      expectExact(exchanges, WINDOW_MS);
      expect(admitted, name).toBeGreaterThan(25);
    }
    expect(played.flat().filter(({ status }) => status === 429).length).toBeGreaterThan(25);
  });

  test("not even half before and half after an edge, wherever that is", async () => {
    const BEFORE_EDGE_MS = 400;
    const cross = async (delayMs: number) => {
      const ask = newClient(hasty);
      const exchanges: Exchange[] = [];
      const burst = (times: number) => Promise.all(Array.from({ length: times }, () => record(exchanges, ask)));
      await sleep(delayMs);
      await burst(1);
      const firstAt = performance.now();
      await waitUntil(firstAt + SHORT_WINDOW_MS - BEFORE_EDGE_MS);
      await burst(24);
      expect(exchanges.map(({ status }) => status)).toEqual(exchanges.map(() => 200));

      await waitUntil(firstAt + SHORT_WINDOW_MS);
      const after = await burst(25);
      expectExact(exchanges, SHORT_WINDOW_MS);
      expect(after.filter(({ status }) => status === 200)).toHaveLength(1);
    };
    // Together they cover a window: if it had an edge anywhere, somebody would cross it.
    const delays = Array.from({ length: SHORT_WINDOW_MS / BEFORE_EDGE_MS }, (_, index) => index * BEFORE_EDGE_MS);
    await Promise.all(delays.map(cross));
  });
});

describe("with a known key", () => {
  test("there is no limit, and none is told, while the same address without it is limited as ever", async () => {
    const ask = newClient(hasty);
    const endsAt = performance.now() + 3 * SHORT_WINDOW_MS;
    const repeat = async (init?: RequestInit) => {
      const exchanges: Exchange[] = [];
      const rates: (string | null)[] = [];
      const go = async () => {
        while (performance.now() < endsAt) {
          const { headers } = await record(exchanges, ask, init);
          rates.push(headers.get("RateLimit"), headers.get("RateLimit-Policy"));
        }
      };
      await Promise.all(Array.from({ length: 8 }, go));
      return { exchanges, rates };
    };
    const [keyed, unkeyed] = await Promise.all([repeat(withKey(KEY)), repeat()]);

    console.log(`${keyed.exchanges.length} requests with the key, ${unkeyed.exchanges.length} without`);
    expect(keyed.exchanges.length).toBeGreaterThan(200);
    expect(new Set(keyed.exchanges.map(({ status }) => status))).toEqual(new Set([200]));
    expect(new Set(keyed.rates)).toEqual(new Set([null]));

    expectExact(unkeyed.exchanges, SHORT_WINDOW_MS);
    expect(unkeyed.rates).not.toContain(null);
    const admitted = unkeyed.exchanges.filter(({ status }) => status === 200).length;
    expect(admitted, "in three windows").toBeGreaterThanOrEqual(3 * 25);
    expect(admitted).toBeLessThan(unkeyed.exchanges.length);
  });

  test("what is asked does not count for those without, whatever the answer is", async () => {
    const ask = newClient();
    for (const { path, status, init } of [
      { path: CHECK, status: 200 },
      { path: `/registry/v2/${VAULT}`, status: 200, init: { method: "HEAD" } },
      { path: "/registry/v2/garbage", status: 400 },
      { path: "/registry/v2/no/such/path", status: 404 },
      { path: CHECK, status: 405, init: { method: "POST" } },
    ]) {
      const answer = await ask(path, { ...init, ...withKey(KEY) });
      expect(answer.status).toBe(status);
      expect(rateOf(answer)).toBeNull();
    }
    expect(rateOf(await ask())).toMatchObject({ remaining: 24 });
  });

  test("whoever is over the limit is answered again at once", async () => {
    const ask = newClient();
    await exhaust(ask);
    expect((await ask()).status).toBe(429);
    expect(await ask(CHECK, withKey(KEY))).toMatchObject({ status: 200, body: "true" });
    expect((await ask(V1_CHECK, withKey(KEY))).status, "but not on v1").toBe(429);
  });
});

describe("the metrics", () => {
  const NAME = "delegation_registry_rate_limit";
  const readOutcomes = async () => {
    const text = await api.metrics();
    const read = (outcome: string) =>
      Number(new RegExp(`^${NAME}_requests_total\\{outcome="${outcome}"\\} (\\d+)$`, "m").exec(text)?.[1]);
    return { keyed: read("keyed"), admitted: read("admitted"), refused: read("refused") };
  };
  const countClients = async () => Number(new RegExp(`^${NAME}_clients (\\d+)$`, "m").exec(await hasty.metrics())?.[1]);

  test("count what was admitted, with a key or without, and what was refused", async () => {
    const ask = newClient();
    const before = await readOutcomes();
    await exhaust(ask);
    for (let asked = 0; asked < 4; asked++) await ask(CHECK, withKey("unknown"));
    for (let asked = 0; asked < 3; asked++) await ask(CHECK, withKey(KEY));
    for (const path of ["/health", "/docs", "/nothing"]) await ask(path);
    await ask(CHECK, { method: "OPTIONS" });
    expect(await readOutcomes()).toEqual({
      keyed: before.keyed + 3,
      admitted: before.admitted + 25,
      refused: before.refused + 4,
    });
  });

  test("tell how many clients are remembered, and that they are forgotten", async () => {
    await until("nobody is", async () => (await countClients()) === 0, 10);
    await Promise.all([newClient(hasty)(), newClient(hasty)(), newClient(hasty)()]);
    expect(await countClients()).toBe(3);
    await until("nobody is any more", async () => (await countClients()) === 0, 10);
  });
});
