import { expect, test } from "vitest";
import { type Api, CHECK, createSampleDatabase, FRESH_FOR_A_DAY, startTestApi } from "../support/api.ts";
import { sendHttp } from "../support/http.ts";
import { describeWithRedis, startRedis } from "../support/redis.ts";
import { waitUntil } from "../support/setup.ts";

// test/slow/redis covers failures of Redis under load.

const WINDOW_MS = 10_000;

const ask = async (api: Api, client: string) => {
  const sentAt = performance.now();
  const { status, headers } = await sendHttp(api.port, { path: CHECK, localAddress: client });
  const [, remaining, seconds] = /^"default";r=(\d+);t=(\d+)$/.exec(String(headers.ratelimit)) ?? [];
  const retryAfter = headers["retry-after"];
  return {
    api,
    status,
    remaining: Number(remaining),
    seconds: Number(seconds),
    retryAfter,
    sentAt,
    answeredAt: performance.now(),
  };
};

describeWithRedis("four API processes with RATE_LIMIT_STORE", () => {
  test("admit 25 of 200 requests together, and 25 each without Redis", async () => {
    const redis = await startRedis();
    const databaseUrl = await createSampleDatabase();
    const env = { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "", RATE_LIMIT_STORE: redis.url };
    const apis = await Promise.all(Array.from({ length: 4 }, () => startTestApi({ databaseUrl, env })));
    const untilShared = (value: string) =>
      waitUntil(
        `rate_limit_shared is ${value} in all processes`,
        () => Promise.all(apis.map(async (api) => /^\w+_rate_limit_shared (\d)$/m.exec(await api.metrics())?.[1])),
        5,
        (values) => values.every((each) => each === value),
      );
    await untilShared("1");

    const burst = await Promise.all(apis.flatMap((api) => Array.from({ length: 50 }, () => ask(api, "127.0.0.2"))));
    const [admitted, refused] = [200, 429].map((status) => burst.filter((answer) => answer.status === status));
    expect(admitted?.map(({ remaining }) => remaining).sort((a, b) => a - b)).toEqual([...Array(25).keys()]);
    expect(refused).toHaveLength(175);
    for (const api of apis) expect(refused?.some((answer) => answer.api === api)).toBe(true);
    for (const { remaining, seconds, retryAfter } of refused ?? []) {
      expect([remaining, retryAfter]).toEqual([0, String(seconds)]);
    }
    const first = admitted?.find(({ remaining }) => remaining === 24) ?? expect.fail("No request was the first.");
    for (const { sentAt, answeredAt, seconds } of burst) {
      expect(seconds).toBeGreaterThanOrEqual(Math.ceil((first.sentAt + WINDOW_MS - answeredAt) / 1000));
      expect(seconds).toBeLessThanOrEqual(Math.ceil((first.answeredAt + WINDOW_MS - sentAt) / 1000));
    }
    const others: number[] = [];
    for (const api of apis) others.push((await ask(api, "127.0.0.3")).remaining);
    expect(others).toEqual([24, 23, 22, 21]);

    await redis.kill();
    await untilShared("0");
    for (const api of apis) {
      const alone = await Promise.all(Array.from({ length: 30 }, () => ask(api, "127.0.0.4")));
      expect(alone.filter(({ status }) => status === 200)).toHaveLength(25);
    }
  });
});
