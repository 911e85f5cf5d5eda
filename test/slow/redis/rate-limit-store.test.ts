import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Api, CHECK, createSampleDatabase, FRESH_FOR_A_DAY, launchApi, startTestApi } from "../../support/api.ts";
import { sendHttp } from "../../support/http.ts";
import { startStopwatch } from "../../support/processes.ts";
import { describeWithRedis, launchRedis, type Redis, startRedis } from "../../support/redis.ts";
import { waitUntil } from "../../support/setup.ts";

// All of 127.0.0.0/8 is local: each test sends requests from its own addresses, with their own windows.

const LIMIT = { requests: 25, windowMs: 4_000 };
const PASSWORD = "c0rrect-h0rse";

let redis: Redis;
let databaseUrl: string;
let apis: readonly [Api, Api, Api, Api];

const envFor = ({ url }: Redis) => ({
  ...FRESH_FOR_A_DAY,
  RATE_LIMIT_REQUESTS: String(LIMIT.requests),
  RATE_LIMIT_WINDOW_SECONDS: String(LIMIT.windowMs / 1000),
  RATE_LIMIT_STORE: url,
});

/** A request with its response. The API decided between `sentAt` and `answeredAt`. */
type Asked = {
  api: Api;
  client: string;
  sentAt: number;
  answeredAt: number;
  /** The time until the answer, without that in which this process waited for a processor. */
  ms: number;
  /** Zero without a response. */
  status: number;
};

const ask = async (api: Api, client: string): Promise<Asked> => {
  const sentAt = performance.now();
  const readMs = startStopwatch(process.pid);
  const { status } = await sendHttp(api.port, { path: CHECK, localAddress: client }).catch(() => ({ status: 0 }));
  return { api, client, sentAt, answeredAt: performance.now(), ms: readMs(), status };
};

const isAdmitted = ({ status }: Asked) => status === 200;
const isRefused = ({ status }: Asked) => status === 429;

/** Expects at most 25 admissions in any window, by the test's clock. */
const expectNeverMore = (asked: readonly Asked[]) => {
  const admitted = asked.filter(isAdmitted).sort((a, b) => a.sentAt - b.sentAt);
  const counts = admitted.map(
    ({ sentAt }, place) =>
      admitted.slice(place).filter(({ answeredAt }) => answeredAt < sentAt + LIMIT.windowMs).length,
  );
  expect(Math.max(0, ...counts)).toBeLessThanOrEqual(LIMIT.requests);
};

/** Expects at least 25 admissions in the window before each refusal, by the test's clock. */
const expectNoEarlyRefusal = (refused: readonly Asked[], asked: readonly Asked[]) => {
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
  waitUntil(
    `rate_limit_shared is ${value} in all processes`,
    () => Promise.all(processes.map(readShared)),
    5,
    (values) => values.every((shared) => shared === value),
  );

/** Reads the log lines about sharing, with their level: 30 for info, 50 for error. */
const readLines = (api: Api): [level: number, message: string][] =>
  api
    .output()
    .split("\n")
    .filter((line) => line.includes("Rate limits are"))
    .map((line) => [JSON.parse(line).level, JSON.parse(line).msg]);

const LOST_AND_FOUND = [
  [50, expect.stringMatching(/^Rate limits are not shared, each process applies its own limit: ./)],
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

  /** Starts one client far above the limit and a hundred clients below it. */
  const startLoad = (greedy: string, modestNetwork: string) => {
    const asked: Promise<Asked>[] = [];
    let round = 0;
    const timer = setInterval(() => {
      for (const api of apis) asked.push(ask(api, greedy));
      // Each modest client uses another process next time.
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

  /** Expects a timely response to every request, and no refusal of a modest client. */
  const expectService = (asked: readonly Asked[], greedy: string) => {
    expect(asked.filter(({ status }) => status !== 200 && status !== 429).map(({ status }) => status)).toEqual([]);
    expect(Math.max(...asked.map(({ ms }) => ms))).toBeLessThan(2000);
    const modest = asked.filter(({ client }) => client !== greedy);
    expect(modest.length).toBeGreaterThan(100);
    expect(modest.filter(isRefused).map(({ client }) => client)).toEqual([]);
  };

  test("fail no request while Redis is killed and restarted, and limit per process meanwhile", async () => {
    const greedy = "127.0.0.20";
    const before = apis.map((api) => readLines(api).length);
    const load = startLoad(greedy, "127.0.20");
    await sleep(2000);
    expect(await Promise.all(apis.map(readShared))).toEqual(["1", "1", "1", "1"]);

    // Redis does not answer requests in flight.
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

    expectService(asked, greedy);
    const byGreedy = asked.filter(({ client }) => client === greedy);
    for (const api of apis) {
      // Includes admissions from before the loss of Redis, which does not reset the budget.
      const own = byGreedy.filter((one) => one.api === api && one.answeredAt < restartedAt);
      expectNeverMore(own);
      const refusedAlone = own.filter((one) => isRefused(one) && one.sentAt > aloneAt);
      expect(refusedAlone.length).toBeGreaterThan(0);
      expectNoEarlyRefusal(refusedAlone, own);
    }
    const together = byGreedy.filter(({ sentAt }) => sentAt > togetherAt);
    expectNeverMore(together);
    const refusedTogether = together.filter(isRefused);
    for (const api of apis) expect(refusedTogether.some((refusal) => refusal.api === api)).toBe(true);
    expectNoEarlyRefusal(refusedTogether, byGreedy);
    expect(together.some(isAdmitted)).toBe(true);

    await expect
      .poll(() => apis.map((api, place) => readLines(api).slice(before[place])))
      .toEqual(new Array(4).fill(LOST_AND_FOUND));
  });

  test("limit per process when they start without Redis, and share the limit when it is up", async () => {
    const late = await startRedis({ password: PASSWORD });
    await late.kill();
    const start = () => startTestApi({ databaseUrl, env: envFor(late) });
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

  test("show the password of Redis neither in logs nor in metrics", async () => {
    for (const api of apis) expect(`${api.output()}${await api.metrics()}`).not.toContain(PASSWORD);
  });
});
