import { execFile } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import { SharedWindow } from "../../../api/limits/shared-window.ts";
import { type Decision, type Limit, SlidingWindow } from "../../../api/limits/sliding-window.ts";
import { type Random, seededRandom } from "../../support/random.ts";
import {
  describeWithRedis,
  expectExactLimit,
  KEY_PREFIX,
  type Redis,
  startRedis,
  watchRedis,
} from "../../support/redis.ts";
import { captureOutput } from "../../support/run.ts";
import { waitUntil } from "../../support/setup.ts";

const DEFAULT = { requests: 25, windowMs: 10_000 };
const PASSWORD = "c0rrect-h0rse";

/** Opens a window like an API process, with its own log, until the test is over. */
const openWindow = async (url: string, limit: Limit = DEFAULT) => {
  const { output, printed } = captureOutput();
  const log = pino({ level: "trace" }, output);
  const window = await SharedWindow.connect(url, limit, new SlidingWindow(limit), log);
  onTestFinished(() => window.close());
  return {
    take: (client: string, count?: number) => window.take(client, count),
    isShared: () => window.isShared,
    close: () => window.close(),
    printed,
    /** Returns the log lines so far, with their level: 30 for info, 50 for error. */
    logged: () =>
      printed()
        .split("\n")
        .filter((line) => line !== "")
        .map((line): [level: number, message: string] => [JSON.parse(line).level, JSON.parse(line).msg]),
  };
};

type Window = Awaited<ReturnType<typeof openWindow>>;

/** Opens a window, and waits until it is connected. */
const openShared = async (url: string, limit?: Limit): Promise<Window> => {
  const window = await openWindow(url, limit);
  // On a busy machine, the first attempt may have timed out.
  await waitUntil("the window is shared", async () => window.isShared(), 10);
  const { length } = window.logged();
  return { ...window, logged: () => window.logged().slice(length) };
};

const openFour = async (url: string, limit?: Limit) => {
  const open = () => openShared(url, limit);
  return Promise.all([open(), open(), open(), open()]);
};

const printedBy = (windows: readonly Window[]) => windows.map(({ printed }) => printed()).join("");

const takeAtOnce = (window: Window, client: string, times: number) =>
  Promise.all(Array.from({ length: times }, () => window.take(client)));

const countAdmitted = (decisions: readonly Decision[]) => decisions.filter(({ isAdmitted }) => isAdmitted).length;

const untilSharedAgain = (window: Window) => waitUntil("the limit is shared again", () => window.isShared(), 3);

const untilEmpty = (redis: Redis) =>
  waitUntil(
    "Redis is empty",
    () => redis.ask("DBSIZE"),
    5,
    (size) => size === 0,
  );

const NOT_SHARED = [50, expect.stringMatching(/^Rate limits are not shared, each process applies its own limit: ./)];
const SHARED_AGAIN = [30, "Rate limits are shared again"];

describeWithRedis("SharedWindow", () => {
  test("take() never exceeds the limit in any span, and never refuses below it, over random requests to four windows", async () => {
    const random = seededRandom(import.meta.filename);
    const redis = await startRedis();
    const watch = await watchRedis(redis);

    const askAtRandom = async (client: string, limit: Limit, forMs: number) => {
      const windows = await openFour(redis.url, limit);
      const decisions = await takeAtRandom(windows, { client, limit, random, forMs });
      const decided = (await watch.readDecisions()).filter((decision) => decision.client === client);
      expect(decided.length, printedBy(windows)).toBe(decisions.length);
      expect(decided.filter(({ stamp }) => stamp !== null).length).toBe(countAdmitted(decisions));
      expectExactLimit(decided, limit);
      expect(countAdmitted(decisions)).toBeLessThan(decisions.length);
      expect(countAdmitted(decisions)).toBeGreaterThan(limit.requests);
    };
    await Promise.all([
      askAtRandom("the default", DEFAULT, 12_000),
      askAtRandom("five", { requests: 5, windowMs: 300 }, 6_000),
      askAtRandom("one", { requests: 1, windowMs: 50 }, 6_000),
      askAtRandom("many", { requests: 100, windowMs: 1000 }, 6_000),
    ]);
  });

  test("take() returns the same remaining and resetMs from every window, and admits after resetMs", async () => {
    const limit = { requests: 4, windowMs: 2000 };
    const redis = await startRedis();
    const windows = await openFour(redis.url, limit);
    const watch = await watchRedis(redis);
    const decisions: Decision[] = [];
    for (const window of [...windows, ...windows]) {
      decisions.push(await window.take("client"));
      await sleep(100);
    }
    expect(decisions.map(({ isAdmitted }) => isAdmitted)).toEqual([true, true, true, true, false, false, false, false]);
    expect(decisions.map(({ remaining }) => remaining)).toEqual([3, 2, 1, 0, 0, 0, 0, 0]);

    const decided = await watch.readDecisions();
    const first = decided[0]?.stamp ?? 0;
    decisions.forEach(({ resetMs }, place) => {
      const { from = 0, to = 0 } = decided[place] ?? {};
      expect(resetMs * 1000).toBeGreaterThanOrEqual(first + 2_000_000 - to);
      expect(resetMs * 1000).toBeLessThanOrEqual(first + 2_000_000 - from + 1000);
    });

    let waits = 0;
    for (const window of windows) {
      const { isAdmitted, resetMs } = await window.take("client");
      if (isAdmitted) continue;
      waits++;
      const admitsAt = performance.now() + resetMs;
      // A timer may fire a millisecond early.
      while (performance.now() < admitsAt) await sleep(1);
      expect((await window.take("client")).isAdmitted).toBe(true);
    }
    expect(waits).toBeGreaterThan(0);
    expectExactLimit(await watch.readDecisions(), limit);
  });

  test("take() admits a number of requests or none, like a window in memory", async () => {
    const redis = await startRedis();
    const [one, other] = await openFour(redis.url);
    expect(await one.take("several", 20)).toMatchObject({ isAdmitted: true, remaining: 5 });
    expect(await other.take("several", 6)).toMatchObject({ isAdmitted: false, remaining: 5 });
    const { isAdmitted, remaining, resetMs } = await other.take("several", 4);
    expect([isAdmitted, remaining]).toEqual([true, 1]);
    // The second body needs some of the first one's places.
    const refused = await one.take("several", 25);
    expect(refused).toMatchObject({ isAdmitted: false, remaining: 1 });
    expect(refused.resetMs).toBeGreaterThanOrEqual(resetMs - 100);
    expect(refused.resetMs).toBeLessThanOrEqual(10_000);
  });

  test("take() sends one command, and a second one only if the server has lost the script", async () => {
    const redis = await startRedis();
    const window = await openShared(redis.url);
    const watch = await watchRedis(redis);
    const askedSince = async (start: number) =>
      (await watch.readCommands())
        .slice(start)
        .filter(({ isByScript, words }) => !isByScript && !/^(echo|client|script)$/i.test(words[0] ?? ""))
        .map(({ words }) => words[0]);

    await window.take("client");
    expect(await askedSince(0)).toEqual(["EVALSHA"]);

    let start = (await watch.readCommands()).length;
    for (let round = 0; round < 20; round++) await window.take(`client ${round}`);
    expect(await askedSince(start)).toEqual(new Array(20).fill("EVALSHA"));

    await redis.ask("SCRIPT", "FLUSH");
    start = (await watch.readCommands()).length;
    expect(await window.take("client")).toMatchObject({ isAdmitted: true, remaining: 23 });
    expect(await window.take("client")).toMatchObject({ isAdmitted: true, remaining: 22 });
    expect(await askedSince(start)).toEqual(["EVALSHA", "EVAL", "EVALSHA"]);

    // Concurrent requests that find the script lost are counted once each.
    await redis.ask("SCRIPT", "FLUSH");
    expect(countAdmitted(await takeAtOnce(window, "client", 40))).toBe(22);
    expect(window.logged()).toEqual([]);
  });

  test("take() leaves no key in Redis a window after a client's last admission, even if refused requests continue", async () => {
    const limit = { requests: 3, windowMs: 2000 };
    const redis = await startRedis();
    const window = await openShared(redis.url, limit);
    const clients = Array.from({ length: 100 }, (_, place) => `client ${place}`);
    await Promise.all(clients.map((client) => window.take(client)));
    expect(await redis.ask("KEYS", `${KEY_PREFIX}client*`)).toHaveLength(100);
    for (const client of clients) {
      const key = `${KEY_PREFIX}${client}`;
      const left = Number(await redis.ask("PTTL", key));
      // -2: the key does not exist.
      expect(left === -2 || (left > 0 && left <= limit.windowMs), `${left} ms`).toBe(true);
    }

    await takeAtOnce(window, "insistent", 3);
    const admittedAt = performance.now();
    let refusals = 0;
    while (!(await window.take("insistent")).isAdmitted) {
      refusals++;
      expect(performance.now() - admittedAt).toBeLessThan(limit.windowMs + 1000);
      await sleep(20);
    }
    expect(refusals).toBeGreaterThan(10);
    await untilEmpty(redis);
  });

  test("take() makes no client wait longer than a window, nor exceed the limit, when the server's clock is set back", async () => {
    const limit = { requests: 5, windowMs: 2000 };
    const redis = await startRedis();
    const window = await openShared(redis.url, limit);
    /** Inserts admissions at these offsets from now. Future ones look like a clock that was set back. */
    const admit = async (client: string, offsetsMs: readonly number[]) => {
      const [seconds, microseconds] = (await redis.ask("TIME")) as [string, string];
      const now = Number(seconds) * 1_000_000 + Number(microseconds);
      const key = `${KEY_PREFIX}${client}`;
      await redis.ask("RPUSH", key, ...offsetsMs.map((ms) => String(now + ms * 1000)));
      await redis.ask("PEXPIRE", key, String((offsetsMs.at(-1) ?? 0) + limit.windowMs));
    };
    const HOUR = 3_600_000;
    const cases = {
      full: { before: [HOUR, HOUR + 10, HOUR + 20, HOUR + 30, HOUR + 40], leaves: 0 },
      "half full": { before: [HOUR, HOUR, HOUR + 1], leaves: 2 },
      "of both times": { before: [-40, -30, HOUR, HOUR + 1], leaves: 1 },
      "by a little": { before: [300, 301, 302, 303], leaves: 1 },
    };
    await Promise.all(
      Object.entries(cases).map(async ([client, { before, leaves }]) => {
        await admit(client, before);
        const decisions = await takeAtOnce(window, client, 10);
        const setBackAt = performance.now();
        expect(countAdmitted(decisions), client).toBe(leaves);
        for (const { resetMs } of decisions) {
          expect(resetMs, client).toBeGreaterThan(0);
          expect(resetMs, client).toBeLessThanOrEqual(limit.windowMs);
        }
        await sleep(limit.windowMs / 2);
        expect(countAdmitted(await takeAtOnce(window, client, 10)), client).toBe(0);
        await sleep(setBackAt + limit.windowMs - performance.now());
        expect(countAdmitted(await takeAtOnce(window, client, 10)), client).toBe(5);
        expect(await redis.ask("PTTL", `${KEY_PREFIX}${client}`), client).toBeLessThanOrEqual(limit.windowMs);
      }),
    );
    await untilEmpty(redis);
  });

  test.each([
    ["is full", ["CONFIG", "SET", "maxmemory", "1"]],
    ["may only be read", ["REPLICAOF", "127.0.0.1", "1"]],
    ["forbids scripts", ["ACL", "SETUSER", "default", "-eval", "-evalsha"]],
  ])("take() does not use a server that answers but %s, and logs that once", async (_, command) => {
    const redis = await startRedis();
    const window = await openWindow(redis.url);
    await window.take("client");
    await redis.ask(...command);
    // Longer than two attempts to reconnect.
    for (let round = 0; round < 15; round++) {
      await window.take("client");
      expect(window.isShared()).toBe(false);
      await sleep(100);
    }
    expect(window.logged()).toEqual([NOT_SHARED]);
  });

  test("close() logs nothing more during an attempt to connect", async () => {
    const redis = await startRedis();
    const window = await openWindow(redis.url);
    redis.hang();
    await window.take("client");
    // The next attempt to connect has begun.
    await sleep(700);
    window.close();
    redis.wake();
    await sleep(1000);
    expect(window.logged()).toEqual([NOT_SHARED]);
  });

  test("take() keeps its server when the process was blocked for 700 ms", async () => {
    const redis = await startRedis();
    const window = await openWindow(redis.url);
    await window.take("client");
    const taken = window.take("client");
    setImmediate(() => {
      const end = performance.now() + 700;
      while (performance.now() < end);
    });
    await taken;
    expect(window.logged()).toEqual([]);
  });

  test("take() keeps a client's budget when the server is lost and when it returns", async () => {
    const redis = await startRedis();
    const window = await openWindow(redis.url);
    expect(countAdmitted(await takeAtOnce(window, "client", 40))).toBe(25);
    await redis.kill();
    expect(countAdmitted(await takeAtOnce(window, "client", 40))).toBe(0);
    await redis.restart();
    expect(countAdmitted(await takeAtOnce(window, "other", 20))).toBe(20);
    await untilSharedAgain(window);
    expect(countAdmitted(await takeAtOnce(window, "client", 40))).toBe(0);
    expect(countAdmitted(await takeAtOnce(window, "other", 40))).toBe(5);
  });

  test("take() limits only the affected client alone when its key has another type", async () => {
    const redis = await startRedis();
    const window = await openShared(redis.url);
    await redis.ask("SET", `${KEY_PREFIX}client`, "something else");
    expect(countAdmitted(await takeAtOnce(window, "client", 40))).toBe(25);
    expect(window.isShared()).toBe(true);
    expect(window.logged()).toEqual([]);
  });
});

describeWithRedis("SharedWindow whose server", () => {
  test("hangs decides alone within a second, counts earlier admissions, and shares again", async () => {
    const redis = await startRedis({ password: PASSWORD });
    await expectToSurvive(
      redis,
      () => redis.hang(),
      () => redis.wake(),
    );
  });

  test("is killed decides alone at once, counts earlier admissions, and shares again", async () => {
    const redis = await startRedis({ password: PASSWORD });
    await expectToSurvive(redis, redis.kill, redis.restart);
  });

  test("is killed notices that and its return without a request", async () => {
    const redis = await startRedis({ password: PASSWORD });
    const window = await openShared(redis.url);
    await redis.kill();
    await waitUntil("the loss is noticed", async () => !window.isShared(), 2);
    await redis.restart();
    await untilSharedAgain(window);
    expect(window.logged()).toEqual([NOT_SHARED, SHARED_AGAIN]);
  });

  test("is killed three times has one connection left, and logs each loss and return once", async () => {
    const redis = await startRedis({ password: PASSWORD });
    const window = await openShared(redis.url);
    for (let round = 0; round < 3; round++) {
      await redis.kill();
      expect((await window.take(`client ${round}`)).isAdmitted).toBe(true);
      await redis.restart();
      await untilSharedAgain(window);
    }
    expect(window.logged()).toEqual(new Array(3).fill([NOT_SHARED, SHARED_AGAIN]).flat());
    expect(await countConnections(redis)).toBe(1);
    expect(window.printed()).not.toContain(PASSWORD);
  });

  test.each([
    ["another password", ":wr0ng-h0rse@"],
    ["another user", `nobody:${PASSWORD}@`],
    ["a password at all", ""],
  ])(
    "requires %s decides alone, logs the reason without the password, and shares after it is accepted",
    async (_, user) => {
      const redis = await startRedis({ password: PASSWORD });
      const startedAt = performance.now();
      const window = await openWindow(`redis://${user}127.0.0.1:${redis.port}`);
      expect(countAdmitted(await takeAtOnce(window, "client", 40))).toBe(25);
      expect(performance.now() - startedAt).toBeLessThan(2000);
      expect(window.isShared()).toBe(false);
      await sleep(1200);
      expect(window.logged()).toEqual([[50, expect.stringMatching(/its own limit: (WRONGPASS|NOAUTH) /)]]);

      await redis.ask("ACL", "SETUSER", "nobody", "on", `>${PASSWORD}`, "~*", "+@all");
      if (user.startsWith(":")) await redis.ask("CONFIG", "SET", "requirepass", "wr0ng-h0rse");
      if (user === "") await redis.ask("CONFIG", "SET", "requirepass", "");
      await waitUntil("it is shared", async () => window.isShared(), 3);
      expect(window.logged()).toEqual([NOT_SHARED, SHARED_AGAIN]);
      expect(window.printed()).not.toMatch(/h0rse/);
    },
  );
});

describeWithRedis("SharedWindow.close()", () => {
  test("ends the connection, logs nothing, and does not reconnect", async () => {
    const redis = await startRedis();
    const window = await openShared(redis.url);
    await window.take("client");
    expect(await countConnections(redis)).toBe(1);
    window.close();
    await waitUntil("the connection is gone", async () => (await countConnections(redis)) === 0, 2);
    await sleep(1200);
    expect(await countConnections(redis)).toBe(0);
    expect(window.logged()).toEqual([]);
  });

  test("stops the attempts to connect", async () => {
    const redis = await startRedis();
    const window = await openShared(redis.url);
    await redis.kill();
    await waitUntil("the loss is noticed", async () => !window.isShared(), 2);
    window.close();
    await redis.restart();
    await sleep(1200);
    expect(await countConnections(redis)).toBe(0);
    expect(window.logged()).toEqual([NOT_SHARED]);
  });

  test.each(["is up", "hangs", "is down"])("lets a process exit when its server %s", async (state) => {
    const redis = await startRedis();
    if (state === "hangs") redis.hang();
    if (state === "is down") await redis.kill();
    const isShared = state === "is up";
    expect((await runProgram(redis.url, isShared)).stdout).toBe(`${isShared ? "shared" : "alone"}\n`);
  });
});

/** Sends requests of one client at random times, singly or in bursts, through random windows. */
const takeAtRandom = async (
  windows: readonly [Window, ...Window[]],
  { client, limit, random, forMs }: { client: string; limit: Limit; random: Random; forMs: number },
): Promise<Decision[]> => {
  const { requests, windowMs } = limit;
  // Fill the window first.
  const taken = Array.from({ length: requests * 2 }, () => random.pick(windows).take(client));
  const end = performance.now() + forMs;
  while (performance.now() < end) {
    const times = random.chance(0.1) ? random.integer(2, requests * 2) : 1;
    for (let left = times; left > 0; left--) taken.push(random.pick(windows).take(client));
    const last = await taken.at(-1);
    // Sometimes within 2 ms of the window's edge.
    const isNear = last && !last.isAdmitted && last.resetMs < windowMs / 4;
    if (isNear && random.chance(0.3)) await sleep(Math.max(0, last.resetMs + random.integer(-2, 2)));
    else await sleep(random.next() ** 3 * (windowMs / requests) * 2);
  }
  return Promise.all(taken);
};

/** Two windows admit 20 and 5. Without their server, each admits up to 25, minus its own admissions. */
const expectToSurvive = async (redis: Redis, lose: () => unknown, giveBack: () => unknown) => {
  const [first, second] = [await openShared(redis.url), await openShared(redis.url)];
  expect(countAdmitted(await takeAtOnce(first, "client", 20))).toBe(20);
  expect(countAdmitted(await takeAtOnce(second, "client", 10))).toBe(5);
  expect((await first.take("client")).isAdmitted).toBe(false);
  expect([first.isShared(), second.isShared()]).toEqual([true, true]);

  await lose();
  const lostAt = performance.now();
  const [byFirst, bySecond] = await Promise.all([takeAtOnce(first, "client", 40), takeAtOnce(second, "client", 40)]);
  expect(performance.now() - lostAt).toBeLessThan(1000);
  expect([countAdmitted(byFirst), countAdmitted(bySecond)]).toEqual([5, 20]);
  expect([first.isShared(), second.isShared()]).toEqual([false, false]);
  // From now on no request waits, and attempts to connect are not logged.
  for (let round = 0; round < 12; round++) {
    const askedAt = performance.now();
    expect((await first.take("client")).isAdmitted).toBe(false);
    expect(performance.now() - askedAt).toBeLessThan(250);
    await sleep(100);
  }
  for (const window of [first, second]) expect(window.logged()).toEqual([NOT_SHARED]);

  await giveBack();
  await waitUntil("they share again", async () => first.isShared() && second.isShared(), 3);
  for (const window of [first, second]) expect(window.logged()).toEqual([NOT_SHARED, SHARED_AGAIN]);
  const both = await Promise.all([takeAtOnce(first, "other", 40), takeAtOnce(second, "other", 40)]);
  expect(countAdmitted(both.flat())).toBe(25);
  await waitUntil("one connection each is left", async () => (await countConnections(redis)) === 2, 2);
  expect(printedBy([first, second])).not.toContain(PASSWORD);
};

const countConnections = async (redis: Redis): Promise<number> =>
  String(await redis.ask("CLIENT", "LIST")).split("name=delegation-registry-api ").length - 1;

/** Runs a process that calls take() once, waits for a server that is up, and closes the window. It has 30 s to exit. */
const runProgram = (url: string, isUp: boolean) => {
  const limits = join(import.meta.dirname, "../../../api/limits");
  const program = `
    import { pino } from "pino";
    import { SharedWindow } from "${limits}/shared-window.ts";
    import { SlidingWindow } from "${limits}/sliding-window.ts";
    const limit = { requests: 25, windowMs: 10_000 };
    const window = await SharedWindow.connect("${url}", limit, new SlidingWindow(limit), pino({ level: "silent" }));
    await window.take("client");
    while (${isUp} && !window.isShared) await new Promise((resolve) => setTimeout(resolve, 100));
    console.log(window.isShared ? "shared" : "alone");
    window.close();
  `;
  const args = ["--import", "tsx", "--input-type=module", "--eval", program];
  return promisify(execFile)(process.execPath, args, { timeout: 30_000 });
};
