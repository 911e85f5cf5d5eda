import { describe, expect, test } from "vitest";
import { SlidingWindow } from "../../api/limits/sliding-window.ts";
import { Random } from "../support/random.ts";

const createWindow = () => {
  const clock = { now: 0 };
  return { clock, window: new SlidingWindow({ requests: 25, windowMs: 10_000 }, () => clock.now) };
};

describe("take() with 25 requests in 10 s", () => {
  test("admits the first 25 at once, and the 26th after the first has left the window", () => {
    const { clock, window } = createWindow();
    for (let remaining = 24; remaining >= 0; remaining--) {
      expect(window.take("client")).toEqual({ isAdmitted: true, remaining, resetMs: 10_000 });
    }
    expect(window.take("client")).toEqual({ isAdmitted: false, remaining: 0, resetMs: 10_000 });
    clock.now = 9_999.999;
    expect(window.take("client").isAdmitted).toBe(false);
    clock.now = 10_000;
    expect(window.take("client")).toEqual({ isAdmitted: true, remaining: 24, resetMs: 10_000 });
  });

  test("admits one request, not 25, at the end of a window with 24 requests just before", () => {
    const { clock, window } = createWindow();
    window.take("client");
    clock.now = 9_999;
    for (let asked = 0; asked < 24; asked++) window.take("client");
    clock.now = 10_000;
    expect(window.take("client").isAdmitted).toBe(true);
    expect(window.take("client")).toEqual({ isAdmitted: false, remaining: 0, resetMs: 9_999 });
  });

  test("does not prolong the wait after refused requests", () => {
    const { clock, window } = createWindow();
    for (let asked = 0; asked < 25; asked++) window.take("client");
    for (clock.now = 1; clock.now < 10_000; clock.now++) expect(window.take("client").isAdmitted).toBe(false);
    expect(window.take("client").isAdmitted).toBe(true);
  });
});

describe("take() with a number of requests", () => {
  test("admits all of them or none, and returns the time until all can be admitted", () => {
    const { clock, window } = createWindow();
    expect(window.take("client", 20)).toEqual({ isAdmitted: true, remaining: 5, resetMs: 10_000 });
    clock.now = 1_000;
    expect(window.take("client", 4)).toEqual({ isAdmitted: true, remaining: 1, resetMs: 9_000 });
    clock.now = 2_000;
    expect(window.take("client", 2)).toEqual({ isAdmitted: false, remaining: 1, resetMs: 8_000 });
    // The first 20 leave, and one of the 4.
    expect(window.take("client", 22)).toEqual({ isAdmitted: false, remaining: 1, resetMs: 9_000 });
    expect(window.take("client", 20, 22)).toEqual({ isAdmitted: false, remaining: 1, resetMs: 9_000 });
    expect(window.take("client")).toMatchObject({ isAdmitted: true, remaining: 0 });
    clock.now = 10_000;
    expect(window.take("client", 20)).toMatchObject({ isAdmitted: true, remaining: 0 });
  });

  test("never admits more than 25 in any 10 s, whatever the numbers", () => {
    const { clock, window } = createWindow();
    const random = new Random(22);
    const admitted: { at: number; count: number }[] = [];
    for (let step = 0; step < 5_000; step++) {
      clock.now += random.integer(0, 900);
      const count = random.integer(1, 25);
      const inWindow = () =>
        admitted.filter(({ at }) => clock.now - at < 10_000).reduce((sum, { count }) => sum + count, 0);
      const fits = inWindow() + count <= 25;
      const { isAdmitted, remaining, resetMs } = window.take("client", count);
      expect(isAdmitted).toBe(fits);
      if (isAdmitted) admitted.push({ at: clock.now, count });
      expect(remaining).toBe(25 - inWindow());
      if (isAdmitted) continue;
      const asked = clock.now;
      clock.now = asked + resetMs;
      expect(inWindow() + count).toBeLessThanOrEqual(25);
      clock.now = asked;
    }
  });
});

describe("record()", () => {
  test("counts an admission by another process against the client", () => {
    const { window } = createWindow();
    for (let recorded = 0; recorded < 24; recorded++) window.record("client");
    expect(window.take("client")).toMatchObject({ isAdmitted: true, remaining: 0 });
    expect(window.take("client")).toMatchObject({ isAdmitted: false, remaining: 0 });
    expect(window.take("other")).toMatchObject({ isAdmitted: true, remaining: 24 });
  });

  test("delays the next admission until all above the limit have left the window", () => {
    const { clock, window } = createWindow();
    for (clock.now = 0; clock.now < 40; clock.now++) window.record("client");
    clock.now = 100;
    // When the 16th of 40 leaves, 24 are left.
    expect(window.take("client")).toEqual({ isAdmitted: false, remaining: 0, resetMs: 15 + 10_000 - 100 });
    clock.now = 15 + 10_000 - 1;
    expect(window.take("client")).toEqual({ isAdmitted: false, remaining: 0, resetMs: 1 });
    clock.now = 15 + 10_000;
    expect(window.take("client")).toMatchObject({ isAdmitted: true, remaining: 0 });
  });
});

test("take() releases only a few expired clients per request, so that none is slow", () => {
  const { clock, window } = createWindow();
  for (let index = 0; index < 20_000; index++) window.take(`client ${index}`);
  clock.now = 10_000;
  window.take("next");
  expect(window.size, "left to later requests").toBeGreaterThan(19_990);
  expect(window.size).toBeLessThan(20_000);
});
