import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { RecentCallers } from "../../api/limits/recent-callers.ts";
import { type Release, Turns } from "../../api/limits/turns.ts";

const createTurns = (options: { places: number; maxWaiting?: number; maxWaitMs?: number }) =>
  new Turns({ maxWaiting: 100, maxWaitMs: 5_000, refuse: () => new Error("refused"), ...options });

const ignore = () => {};

/** Sends a request. Returns true if it has to wait. */
const mustWait = (turns: Turns, caller: string, most: number): boolean => {
  const turn = turns.take(caller, most);
  if (turn instanceof Promise) turn.catch(ignore);
  return turn instanceof Promise;
};

/** Sends requests, named after their callers, and returns a function that ends the oldest one and lists those with a place. */
const send = (turns: Turns, callers: readonly string[], most: number) => {
  const served: { caller: string; release: Release }[] = [];
  for (const caller of callers) {
    Promise.resolve(turns.take(caller, most)).then((release) => served.push({ caller, release }), ignore);
  }
  return async (ended = 0) => {
    await nextTurn();
    for (let index = 0; index < ended; index++) {
      served.shift()?.release();
      await nextTurn();
    }
    return served.map(({ caller }) => caller).join("");
  };
};

describe("Turns", () => {
  test("gives a free place at once, up to the caller's maximum", async () => {
    const turns = createTurns({ places: 4 });
    const list = send(turns, [..."aaaab"], 3);
    expect(await list()).toBe("aaab");
    expect(mustWait(turns, "c", 3), "all four are in use").toBe(true);
  });

  test("serves waiting callers in turn, one request each", async () => {
    const list = send(createTurns({ places: 2 }), [..."aaaaaabcb"], 2);
    expect(await list()).toBe("aa");
    expect(await list(1)).toBe("aa");
    expect(await list(1)).toBe("ab");
    expect(await list(1)).toBe("bc");
    expect(await list(1)).toBe("ca");
    expect(await list(1)).toBe("ab");
    expect(await list(4)).toBe("");
  });

  test("skips a caller that has its maximum, and leaves a place free for others", async () => {
    const turns = createTurns({ places: 3 });
    const list = send(turns, [..."aaa"], 2);
    const release = await turns.take("b", 2);
    release();
    expect(await list()).toBe("aa");
    expect(mustWait(turns, "b", 2)).toBe(false);
  });

  test("refuses a request of a caller with too many that wait, and no other caller's", async () => {
    const turns = createTurns({ places: 1, maxWaiting: 2 });
    const list = send(turns, [..."aaa"], 1);
    expect(() => turns.take("a", 1)).toThrow("refused");
    send(turns, ["b"], 1);
    expect(await list(1)).toBe("a");
  });

  test("refuses a request that has waited too long, and serves the next one", async () => {
    const turns = createTurns({ places: 1, maxWaitMs: 50 });
    const release = await turns.take("a", 1);
    await expect(turns.take("a", 1)).rejects.toThrow("refused");
    const next = turns.take("b", 1);
    release();
    (await next)();
    expect(mustWait(turns, "a", 1)).toBe(false);
  });

  test("counts a place that is released twice once", async () => {
    const turns = createTurns({ places: 1 });
    const release = await turns.take("a", 1);
    release();
    release();
    await turns.take("b", 1);
    expect(mustWait(turns, "c", 1)).toBe(true);
  });
});

test("RecentCallers remembers others until the end of the next second", () => {
  let now = 0;
  const callers = new RecentCallers(() => now);
  expect(callers.record("a")).toBe(false);
  expect(callers.record("b")).toBe(true);
  expect(callers.record("a")).toBe(true);
  now = 1_999;
  expect(callers.record("a")).toBe(true);
  now = 2_000;
  expect(callers.record("a")).toBe(false);
  now = 10_000;
  expect(callers.record("b"), "the caller of long ago is forgotten").toBe(false);
});
