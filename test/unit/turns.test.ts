import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { type Release, Turns } from "../../api/limits/turns.ts";

const createTurns = (options: { places: number; maxWaiting?: number; maxWaitMs?: number }) =>
  new Turns({ maxWaiting: 100, maxWaitMs: 5_000, refuse: () => new Error("refused"), ...options });

const ignore = () => {};

/** Sends requests, named after their callers, and returns a function that ends the oldest ones and lists those with places. */
const send = (turns: Turns, callers: readonly string[], weight?: number, max?: number) => {
  const served: { caller: string; release: Release }[] = [];
  for (const caller of callers) {
    Promise.resolve(turns.take(caller, weight, max)).then((release) => served.push({ caller, release }), ignore);
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
  test("gives a caller a sixteenth of the places that it leaves free", async () => {
    const turns = createTurns({ places: 102 });
    const first = send(turns, [..."aaaaaaaa"]);
    expect(await first(), "6 of 96").toBe("aaaaaa");
    expect(await send(turns, [..."bbbbbbb"])(), "5 of 91").toBe("bbbbb");
    expect(await first(1), "5 of 92").toBe("aaaaa");
    expect(await first(1)).toBe("aaaaa");
  });

  test("serves waiting callers in turn, one request each", async () => {
    const list = send(createTurns({ places: 2 }), [..."aaaaaabcb"], 1, 2);
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
    const list = send(turns, [..."aaa"], 1, 2);
    const release = await turns.take("b", 1, 2);
    release();
    expect(await list()).toBe("aa");
    expect(await send(turns, ["b"], 1, 2)()).toBe("b");
  });

  test("counts a request with its weight, and lets no smaller one overtake it forever", async () => {
    const turns = createTurns({ places: 8 });
    const small = send(turns, [..."abcdef"]);
    expect(await small()).toBe("abcdef");
    const large = send(turns, ["g"], 4);
    const later = send(turns, [..."hi"]);
    expect([await large(), await later()]).toEqual(["", ""]);
    await small(1);
    expect([await large(), await later()]).toEqual(["", ""]);
    await small(1);
    expect([await large(), await later()]).toEqual(["g", ""]);
    await small(1);
    expect(await later()).toBe("h");
  });

  test("gives a caller a place beyond its share if it has none", async () => {
    expect(await send(createTurns({ places: 4 }), [..."aa"], 4)()).toBe("a");
  });

  test("refuses a request of a caller with too many that wait, and no other caller's", async () => {
    const turns = createTurns({ places: 1, maxWaiting: 2 });
    const list = send(turns, [..."aaa"]);
    await expect(turns.take("a")).rejects.toThrow("refused");
    const other = send(turns, ["b"]);
    expect(await list(1)).toBe("a");
    await list(1);
    expect(await other()).toBe("b");
  });

  test("refuses a request that has waited too long, and serves the next one", async () => {
    const turns = createTurns({ places: 2, maxWaitMs: 50 });
    const release = await turns.take("a");
    await expect(turns.take("a", 2)).rejects.toThrow("refused");
    const large = turns.take("b", 2);
    const next = send(turns, ["c"]);
    expect(await next(), "b has its turn first").toBe("");
    await expect(large).rejects.toThrow("refused");
    expect(await next()).toBe("c");
    release();
    expect(await send(turns, ["a"])()).toBe("a");
  });

  test("counts places that are released twice once", async () => {
    const turns = createTurns({ places: 1 });
    const release = await turns.take("a");
    release();
    release();
    expect(await send(turns, ["b", "c"])()).toBe("b");
  });
});
