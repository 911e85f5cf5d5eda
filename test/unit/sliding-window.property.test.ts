import fc from "fast-check";
import { expect, test } from "vitest";
import { type Decision, type Limit, SlidingWindow } from "../../api/limits/sliding-window.ts";
import { PROPERTY_RUNS } from "../support/random.ts";

const DEFAULT: Limit = { requests: 25, windowMs: 10_000 };

const createWindow = (limit: Limit = DEFAULT) => {
  const clock = { now: 0 };
  return { clock, window: new SlidingWindow(limit, () => clock.now) };
};

/** A fraction of a millisecond that floating point adds without rounding, so that edges of windows are exact. */
const TICK = 1 / 1024;

type Step = {
  pause: { windows: number; ticks: number };
  client: number;
  /** Share of the limit that each request takes, as one with many checks does. */
  share: number;
  /** Many other clients send one request each; otherwise one client sends all. */
  isCrowd: boolean;
  requests: number;
  ticksBetween: number;
  /** Other processes admit these requests, and this window records them. */
  isRecorded: boolean;
  isReleased: boolean;
  /** Wait of a refused client. */
  wait: "none" | "exact" | "whole seconds";
};

const limits: fc.Arbitrary<Limit> = fc.oneof(
  fc.constant(DEFAULT),
  fc.record({ requests: fc.integer({ min: 1, max: 30 }), windowMs: fc.integer({ min: 1, max: 20_000 }) }),
);

const steps = (isRecorded: fc.Arbitrary<boolean>): fc.Arbitrary<Step[]> => {
  const step = fc.record({
    pause: fc.record({
      windows: fc.constantFrom(0, 0, 0, 0, 1 / 32, 1 / 4, 1 / 2, 1, 1, 2, 1000),
      ticks: fc.oneof(fc.constant(0), fc.integer({ min: -2, max: 2 }), fc.integer({ min: 0, max: 2 ** 20 })),
    }),
    client: fc.nat(3),
    share: fc.constantFrom(0, 0, 0, 0.1, 0.5, 1),
    isCrowd: fc.integer({ min: 0, max: 59 }).map((side) => side === 0),
    requests: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 40 })),
    ticksBetween: fc.oneof(fc.constant(0), fc.nat(2 ** 10), fc.nat(2 ** 18)),
    isRecorded,
    isReleased: fc.boolean(),
    wait: fc.constantFrom("none" as const, "none" as const, "exact" as const, "whole seconds" as const),
  });
  return fc.array(step, { maxLength: 40, size: "max" });
};

/** Reference implementation: keeps every admission, and counts them for each request. */
class Model {
  readonly admissions = new Map<string, number[]>();
  readonly #limit: Limit;

  constructor(limit: Limit) {
    this.#limit = limit;
  }

  admit(name: string, now: number): void {
    const times = this.admissions.get(name);
    if (times) times.push(now);
    else this.admissions.set(name, [now]);
  }

  take(name: string, now: number, count: number): Decision {
    const { requests, windowMs } = this.#limit;
    const isAdmitted = this.#counted(name, now).length + count <= requests;
    if (isAdmitted) for (let taken = 0; taken < count; taken++) this.admit(name, now);
    const times = this.#counted(name, now);
    // So many must leave the window before the next one is admitted, or the refused ones together.
    const leaving = Math.max(1, times.length + (isAdmitted ? 1 : count) - requests);
    return {
      isAdmitted,
      remaining: Math.max(0, requests - times.length),
      resetMs: (times[leaving - 1] ?? Number.NaN) + windowMs - now,
    };
  }

  #counted(name: string, now: number): number[] {
    return (this.admissions.get(name) ?? []).filter((time) => time > now - this.#limit.windowMs);
  }
}

/** Throws if the window decides differently than the model. @returns the times of admissions by client */
const replay = (limit: Limit, steps: readonly Step[], counts: { admitted: number; refused: number }) => {
  const { clock, window } = createWindow(limit);
  const model = new Model(limit);
  const admitted = new Map<string, number[]>();

  const take = (name: string, count: number): Decision => {
    const [decision, expected] = [window.take(name, count), model.take(name, clock.now, count)];
    const isSame =
      decision.isAdmitted === expected.isAdmitted &&
      decision.remaining === expected.remaining &&
      decision.resetMs === expected.resetMs;
    if (!isSame) {
      const shown = [decision, expected].map((value) => JSON.stringify(value));
      throw new Error(`at ${clock.now}, ${name} gets ${shown[0]} instead of ${shown[1]}`);
    }
    counts[decision.isAdmitted ? "admitted" : "refused"]++;
    if (decision.isAdmitted) admitted.set(name, [...(admitted.get(name) ?? []), ...Array(count).fill(clock.now)]);
    return decision;
  };
  const mustBe = (isAdmitted: boolean, name: string, count: number, when: string) => {
    if (take(name, count).isAdmitted !== isAdmitted)
      throw new Error(`${name} is not ${isAdmitted ? "admitted" : "refused"} ${when}`);
  };

  for (const { pause, client, share, isCrowd, requests, ticksBetween, isRecorded, isReleased, wait } of steps) {
    clock.now += Math.max(0, pause.windows * limit.windowMs + pause.ticks * TICK);
    const arrivals = isCrowd ? requests * 50 : requests;
    const count = Math.max(1, Math.floor(share * limit.requests));
    let decision: Decision | null = null;
    for (let arrival = 0; arrival < arrivals; arrival++) {
      const name = isCrowd ? `stranger ${arrival}` : `client ${client}`;
      if (arrival > 0 && !isCrowd) clock.now += ticksBetween * TICK;
      if (isRecorded) {
        window.record(name);
        model.admit(name, clock.now);
      } else decision = take(name, count);
    }
    if (isReleased) window.release();
    if (isCrowd || decision === null || decision.isAdmitted || wait === "none") continue;
    if (wait === "whole seconds") {
      clock.now += Math.ceil(decision.resetMs / 1000) * 1000;
    } else {
      clock.now += decision.resetMs - TICK;
      mustBe(false, `client ${client}`, count, "a moment before resetMs");
      clock.now += TICK;
    }
    mustBe(true, `client ${client}`, count, "at resetMs");
  }
  return admitted;
};

/** Expects enough admissions and refusals for the property to be meaningful. */
const expectBoth = ({ admitted, refused }: { admitted: number; refused: number }) =>
  expect(Math.min(admitted, refused)).toBeGreaterThan(PROPERTY_RUNS / 4);

test("take() admits at most the limit in any span of the window's length, and refuses nothing below it", () => {
  const counts = { admitted: 0, refused: 0 };
  fc.assert(
    fc.property(limits, steps(fc.constant(false)), (limit, steps) => {
      for (const [name, times] of replay(limit, steps, counts)) {
        // The fullest spans start with an admission: the one after the limit must lie outside.
        const tooSoon = times.find(
          (time, index) => (times[index + limit.requests] ?? Infinity) - time < limit.windowMs,
        );
        if (tooSoon !== undefined) throw new Error(`${name} has too many admissions in the window from ${tooSoon}`);
      }
    }),
    { numRuns: PROPERTY_RUNS },
  );
  expectBoth(counts);
});

test("record() counts admissions by other processes, and resetMs is exact even if they exceed the limit", () => {
  const counts = { admitted: 0, refused: 0 };
  fc.assert(
    fc.property(limits, steps(fc.boolean()), (limit, steps) => {
      replay(limit, steps, counts);
    }),
    { numRuns: PROPERTY_RUNS / 4 },
  );
  expectBoth(counts);
});

// Sums of a real clock's times are rounded, by less than a nanosecond.
test("take() returns a right resetMs, within the window and above zero, with a clock of nanoseconds", () => {
  const NANOSECONDS = 1e6;
  const expectInWindow = ({ isAdmitted, resetMs }: Decision) => {
    if (resetMs > DEFAULT.windowMs) throw new Error(`of a window of 10 s, ${resetMs} ms are left`);
    if (!isAdmitted && resetMs <= 0) throw new Error(`it is refused, and resetMs is ${resetMs}`);
  };
  const property = fc.property(
    fc.nat(100_000_000).map((start) => start * 1000 + 1),
    fc.array(fc.nat(400_000_000), { minLength: 25, maxLength: 25 }),
    fc.boolean(),
    (start, pauses, isWholeSeconds) => {
      const { clock, window } = createWindow();
      let time = start;
      for (const pause of pauses) {
        time += pause;
        clock.now = time / NANOSECONDS;
        expectInWindow(window.take("client"));
      }
      const decision = window.take("client");
      expectInWindow(decision);
      const wait = isWholeSeconds ? Math.ceil(decision.resetMs / 1000) * 1000 : decision.resetMs;
      const toldAt = clock.now;
      clock.now = toldAt + wait;
      const next = window.take("client");
      expectInWindow(next);
      clock.now = toldAt + wait + 1 / NANOSECONDS;
      if (!next.isAdmitted && !window.take("client").isAdmitted)
        throw new Error(`after ${wait} ms, it is still refused`);
    },
  );
  fc.assert(property, { numRuns: PROPERTY_RUNS });
});

test("take() admits 25 requests at once, and the 26th when the first has left the window", () => {
  const { clock, window } = createWindow();
  for (let remaining = 24; remaining >= 0; remaining--) {
    expect(window.take("client")).toEqual({ isAdmitted: true, remaining, resetMs: 10_000 });
  }
  clock.now = 9_999.999;
  expect(window.take("client")).toMatchObject({ isAdmitted: false, remaining: 0 });
  clock.now = 10_000;
  expect(window.take("client")).toEqual({ isAdmitted: true, remaining: 24, resetMs: 10_000 });
});

test("take() with a number admits all or none, and returns the time until as many as will be retried fit", () => {
  const { clock, window } = createWindow();
  expect(window.take("client", 20)).toEqual({ isAdmitted: true, remaining: 5, resetMs: 10_000 });
  clock.now = 1_000;
  expect(window.take("client", 4)).toEqual({ isAdmitted: true, remaining: 1, resetMs: 9_000 });
  clock.now = 2_000;
  expect(window.take("client", 2)).toEqual({ isAdmitted: false, remaining: 1, resetMs: 8_000 });
  // The first 20 leave, and one of the 4.
  expect(window.take("client", 22)).toEqual({ isAdmitted: false, remaining: 1, resetMs: 9_000 });
  expect(window.take("client", 20, 22)).toEqual({ isAdmitted: false, remaining: 1, resetMs: 9_000 });
});

test("a crowd is forgotten as a whole when its last admission has left the window: no request pays for it", () => {
  const { clock, window } = createWindow();
  for (let index = 0; index < 20_000; index++) window.take(`client ${index}`);
  clock.now = 5_000;
  window.take("later");
  clock.now = 10_000;
  expect(window.take("next").remaining).toBe(24);
  expect(window.take("later").remaining, "remembered, as its first admission counts").toBe(23);
  expect(window.take("client 0").remaining, "its first admission has left").toBe(24);
  clock.now = 15_000;
  expect(window.size).toBe(3);
});

test("giveBack() takes back the newest admission", () => {
  const { clock, window } = createWindow({ requests: 2, windowMs: 10_000 });
  window.take("client");
  clock.now = 1_000;
  window.take("client");
  window.giveBack("client");
  expect(window.take("client")).toEqual({ isAdmitted: true, remaining: 0, resetMs: 9_000 });
  window.giveBack("client");
  window.giveBack("client");
  window.giveBack("client");
  expect(window.size).toBe(0);
});
