import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Api, CHECK, createSampleDatabase, FRESH_FOR_A_DAY, launchApi, startApi } from "../../support/api.ts";
import { sendHttp } from "../../support/http.ts";
import { seededRandom } from "../../support/random.ts";
import {
  describeWithRedis,
  expectExact,
  launchRedis,
  type Redis,
  startRedis,
  watchRedis,
} from "../../support/redis.ts";
import { until } from "../../support/setup.ts";

// Four API processes that count together. All of 127.0.0.0/8 is this machine: each test asks from addresses
// of its own, so that none has to wait for another's window.

const LIMIT = { requests: 25, windowMs: 10_000 };
const PASSWORD = "c0rrect-h0rse";

let redis: Redis;
let databaseUrl: string;
let apis: readonly [Api, Api, Api, Api];

const envFor = ({ url }: Redis) => ({ ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "25", RATE_LIMIT_STORE: url });

/** A request and its answer: what was decided, was decided between two moments. */
type Asked = {
  api: Api;
  client: string;
  sentAt: number;
  answeredAt: number;
  /** Zero where there was no answer. */
  status: number;
  /** What RateLimit says: how many remain, and for how long. */
  remaining: number;
  seconds: number;
  retryAfter: string | string[] | undefined;
};

const ask = async (api: Api, client: string): Promise<Asked> => {
  const sentAt = performance.now();
  const { status, headers } = await sendHttp(api.port, { path: CHECK, localAddress: client }).catch(() => ({
    status: 0,
    headers: {} as NodeJS.Dict<string | string[]>,
  }));
  const answeredAt = performance.now();
  const [, remaining, seconds] = /^"default";r=(\d+);t=(\d+)$/.exec(String(headers.ratelimit)) ?? [];
  return {
    api,
    client,
    sentAt,
    answeredAt,
    status,
    remaining: Number(remaining),
    seconds: Number(seconds),
    retryAfter: headers["retry-after"],
  };
};

const isAdmitted = ({ status }: Asked) => status === 200;
const isRefused = ({ status }: Asked) => status === 429;

/** By the asker's own clock, of requests that are counted together: never more than 25 were admitted in any ten seconds. */
const expectNeverMore = (asked: readonly Asked[]) => {
  const admitted = asked.filter(isAdmitted).sort((a, b) => a.sentAt - b.sentAt);
  const counts = admitted.map(
    ({ sentAt }, place) =>
      admitted.slice(place).filter(({ answeredAt }) => answeredAt < sentAt + LIMIT.windowMs).length,
  );
  expect(Math.max(0, ...counts)).toBeLessThanOrEqual(LIMIT.requests);
};

/** And none was refused where less than 25 may have been admitted in the ten seconds before. */
const expectRefusalsToBeDue = (refused: readonly Asked[], asked: readonly Asked[]) => {
  const admitted = asked.filter(isAdmitted);
  const counts = refused.map(
    ({ sentAt, answeredAt }) =>
      admitted.filter((other) => other.answeredAt > sentAt - LIMIT.windowMs && other.sentAt < answeredAt).length,
  );
  expect(Math.min(Infinity, ...counts)).toBeGreaterThanOrEqual(LIMIT.requests);
};

const readShared = async (api: Api): Promise<string | undefined> =>
  /^delegation_registry_rate_limit_shared (\d)$/m.exec(await api.metrics())?.[1];

const untilShared = (processes: readonly Api[], value: "0" | "1") =>
  until(
    `the metric of all is ${value}`,
    async () => (await Promise.all(processes.map(readShared))).every((shared) => shared === value),
    5,
  );

/** The lines about sharing that a process has printed, each with its level: 30 to inform, 50 for an error. */
const readLines = (api: Api): [level: number, message: string][] =>
  api
    .output()
    .split("\n")
    .filter((line) => line.includes("Rate limits are"))
    .map((line) => [JSON.parse(line).level, JSON.parse(line).msg]);

const LOST_AND_FOUND = [
  [50, expect.stringMatching(/^Rate limits are not shared, each process limits by itself: ./)],
  [30, "Rate limits are shared again"],
];

describeWithRedis("four API processes with one Redis", () => {
  beforeAll(async () => {
    redis = await launchRedis({ password: PASSWORD });
    databaseUrl = await createSampleDatabase();
    const launch = () => launchApi({ databaseUrl, env: envFor(redis) });
    apis = await Promise.all([launch(), launch(), launch(), launch()]);
  });
  afterAll(async () => {
    await Promise.all((apis ?? []).map((api) => api.stop()));
    await redis?.stop();
  });

  test("200 requests at once are 25 answers and 175 refusals, told alike by all; waiting as one says is enough for another", async () => {
    const client = "127.0.0.2";
    expect(await Promise.all(apis.map(readShared))).toEqual(["1", "1", "1", "1"]);
    const burst = await Promise.all(Array.from({ length: 50 }, () => apis.map((api) => ask(api, client))).flat());
    const [admitted, refused] = [burst.filter(isAdmitted), burst.filter(isRefused)];
    expect([admitted.length, refused.length]).toEqual([25, 175]);
    for (const api of apis) expect(refused.some((refusal) => refusal.api === api)).toBe(true);

    // Each place was given once, whichever process gave it.
    const places = admitted.map(({ remaining }) => remaining).sort((a, b) => a - b);
    expect(places).toEqual(Array.from({ length: 25 }, (_, place) => place));
    const first = admitted.find(({ remaining }) => remaining === 24);
    if (!first) throw new Error("Nobody was the first.");
    for (const { sentAt, answeredAt, seconds } of burst) {
      expect(seconds).toBeGreaterThanOrEqual(Math.ceil((first.sentAt + LIMIT.windowMs - answeredAt) / 1000));
      expect(seconds).toBeLessThanOrEqual(Math.ceil((first.answeredAt + LIMIT.windowMs - sentAt) / 1000));
    }
    for (const { remaining, seconds, retryAfter } of refused) {
      expect([remaining, retryAfter]).toEqual([0, String(seconds)]);
    }

    // Others are not concerned.
    const others: number[] = [];
    for (const api of apis) others.push((await ask(api, "127.0.0.3")).remaining);
    expect(others).toEqual([24, 23, 22, 21]);

    const [one, , , another] = apis;
    const refusal = await ask(one, client);
    expect(refusal.status).toBe(429);
    await sleep(Number(refusal.retryAfter) * 1000);
    expect((await ask(another, client)).status).toBe(200);
  });

  test("requests at random times: never more than 25 in any 10 s, never a refusal with less, by either side's clock", async () => {
    const random = seededRandom("api/rate-limit-store.test.ts");
    const watch = await watchRedis(redis);
    const clients = ["127.0.0.11", "127.0.0.12", "127.0.0.13"];
    const askAtRandom = async (client: string): Promise<Asked[]> => {
      const asked: Promise<Asked>[] = [];
      const end = performance.now() + 25_000;
      while (performance.now() < end) {
        const times = random.chance(0.1) ? random.integer(2, 40) : 1;
        for (let left = times; left > 0; left--) asked.push(ask(random.pick(apis), client));
        await sleep(random.next() ** 2 * 800);
      }
      return Promise.all(asked);
    };
    const asked = (await Promise.all(clients.map(askAtRandom))).flat();
    const decisions = (await watch.readDecisions()).filter(({ client }) => clients.includes(client));
    expectExact(decisions, LIMIT);
    for (const client of clients) {
      const own = asked.filter((one) => one.client === client);
      const [admitted, refused] = [own.filter(isAdmitted), own.filter(isRefused)];
      const decided = decisions.filter((decision) => decision.client === client);
      const stamps = decided.filter(({ stamp }) => stamp !== null);
      expect([admitted.length, refused.length]).toEqual([stamps.length, decided.length - stamps.length]);
      expect(admitted.length + refused.length).toBe(own.length);
      expectNeverMore(own);
      expectRefusalsToBeDue(refused, own);
      // That it meant something.
      expect(refused.length).toBeGreaterThan(10);
      expect(admitted.length).toBeGreaterThan(LIMIT.requests);
    }
    expect(apis.flatMap(readLines)).toEqual([]);
  });

  /** One client that asks all processes much too often, and a hundred that do not, until it is told to stop. */
  const startLoad = (greedy: string, modestNetwork: string) => {
    const asked: Promise<Asked>[] = [];
    let round = 0;
    const timer = setInterval(() => {
      for (const api of apis) asked.push(ask(api, greedy));
      // Each of the modest asks another process next time.
      const api = apis[(round + Math.floor(round / 100)) % 4] ?? apis[0];
      asked.push(ask(api, `${modestNetwork}.${1 + (round % 100)}`));
      round++;
      if (round === 1500) clearInterval(timer);
    }, 40);
    return {
      stop: async () => {
        clearInterval(timer);
        return Promise.all(asked);
      },
    };
  };

  /** Whatever happens to the store, every request is answered in time, and none is refused that has not asked often. */
  const expectToBeServed = (asked: readonly Asked[], greedy: string) => {
    expect(asked.filter(({ status }) => status !== 200 && status !== 429).map(({ status }) => status)).toEqual([]);
    expect(Math.max(...asked.map(({ sentAt, answeredAt }) => answeredAt - sentAt))).toBeLessThan(2000);
    const modest = asked.filter(({ client }) => client !== greedy);
    expect(modest.length).toBeGreaterThan(100);
    expect(modest.filter(isRefused).map(({ client }) => client)).toEqual([]);
  };

  test("Redis is killed and restarted under load: no request fails, each process limits by itself meanwhile, then all together", async () => {
    const greedy = "127.0.0.20";
    const before = apis.map((api) => readLines(api).length);
    const load = startLoad(greedy, "127.0.20");
    await sleep(2000);
    expect(await Promise.all(apis.map(readShared))).toEqual(["1", "1", "1", "1"]);

    // In the midst of requests: what it has been asked just now, it will never answer.
    redis.hang();
    await sleep(200);
    await redis.kill();
    await untilShared(apis, "0");
    const aloneAt = performance.now();
    await sleep(LIMIT.windowMs + 1000);
    const restartedAt = performance.now();
    await redis.restart();
    await untilShared(apis, "1");
    const togetherAt = performance.now();
    await sleep(LIMIT.windowMs + 1500);
    const asked = await load.stop();

    expectToBeServed(asked, greedy);
    const byGreedy = asked.filter(({ client }) => client === greedy);
    for (const api of apis) {
      // With what it admitted while it shared: to lose the store is not a new budget.
      const own = byGreedy.filter((one) => one.api === api && one.answeredAt < restartedAt);
      expectNeverMore(own);
      const refusedAlone = own.filter((one) => isRefused(one) && one.sentAt > aloneAt);
      expect(refusedAlone.length).toBeGreaterThan(0);
      expectRefusalsToBeDue(refusedAlone, own);
    }
    const together = byGreedy.filter(({ sentAt }) => sentAt > togetherAt);
    expectNeverMore(together);
    const refusedTogether = together.filter(isRefused);
    for (const api of apis) expect(refusedTogether.some((refusal) => refusal.api === api)).toBe(true);
    expectRefusalsToBeDue(refusedTogether, byGreedy);
    // The client was let in again when its time came.
    expect(together.some(isAdmitted)).toBe(true);

    await expect
      .poll(() => apis.map((api, place) => readLines(api).slice(before[place])))
      .toEqual(new Array(4).fill(LOST_AND_FOUND));
  });

  test("Redis hangs under load: no request fails or takes longer than 2 s, and all share again when it wakes", async () => {
    const greedy = "127.0.0.30";
    const before = apis.map((api) => readLines(api).length);
    const load = startLoad(greedy, "127.0.30");
    await sleep(1500);
    redis.hang();
    await untilShared(apis, "0");
    await sleep(4000);
    const wokenAt = performance.now();
    redis.wake();
    await untilShared(apis, "1");
    const togetherAt = performance.now();
    await sleep(3000);
    const asked = await load.stop();

    expectToBeServed(asked, greedy);
    const byGreedy = asked.filter(({ client }) => client === greedy);
    for (const api of apis) expectNeverMore(byGreedy.filter((one) => one.api === api && one.answeredAt < wokenAt));
    expectNeverMore(byGreedy.filter(({ sentAt }) => sentAt > togetherAt));
    await expect
      .poll(() => apis.map((api, place) => readLines(api).slice(before[place])))
      .toEqual(new Array(4).fill(LOST_AND_FOUND));
    const burst = await Promise.all(apis.flatMap((api) => Array.from({ length: 20 }, () => ask(api, "127.0.0.31"))));
    expect([burst.filter(isAdmitted).length, burst.filter(isRefused).length]).toEqual([25, 55]);
  });

  test("processes that are started without Redis answer, each limits by itself, and they share as soon as it is there", async () => {
    const late = await startRedis({ password: PASSWORD });
    await late.kill();
    const start = () => startApi({ databaseUrl, env: envFor(late) });
    const pair = await Promise.all([start(), start()]);
    expect(await Promise.all(pair.map(readShared))).toEqual(["0", "0"]);
    const askAll = async (client: string) =>
      Promise.all(pair.map((api) => Promise.all(Array.from({ length: 40 }, () => ask(api, client)))));
    for (const asked of await askAll("127.0.0.40")) {
      expect([asked.filter(isAdmitted).length, asked.filter(isRefused).length]).toEqual([25, 15]);
    }

    await late.restart();
    await untilShared(pair, "1");
    const asked = (await askAll("127.0.0.41")).flat();
    expect([asked.filter(isAdmitted).length, asked.filter(isRefused).length]).toEqual([25, 55]);
    await expect.poll(() => pair.map(readLines)).toEqual([LOST_AND_FOUND, LOST_AND_FOUND]);
    expect(pair.map((api) => api.output()).join()).not.toContain(PASSWORD);
  });

  test("the store's password is in nothing that a process prints or counts", async () => {
    for (const api of apis) expect(`${api.output()}${await api.metrics()}`).not.toContain(PASSWORD);
  });
});
