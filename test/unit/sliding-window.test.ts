import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Decision, type Limit, SlidingWindow, WindowFullError } from "../../api/limits/sliding-window.ts";
import { measure, ROOT } from "../support/measure.ts";

const RUNS = 10_000;
const RUNS_WITH_OTHERS = 3_000;

const DEFAULT: Limit = { requests: 25, windowMs: 10_000 };

/** A window whose time the test tells. */
const createWindow = (limit: Limit = DEFAULT) => {
  const clock = { now: 0 };
  return { clock, window: new SlidingWindow(limit, () => clock.now) };
};

// Arrivals, as random as can be.

/** Parts of a millisecond that floating point adds up without rounding: what is on the edge of a window is on it. */
const TICK = 1 / 1024;

type Step = {
  /** Before it. */
  pause: { windows: number; ticks: number };
  client: number;
  /** A crowd of strangers asks once each; otherwise one client asks this often. */
  isCrowd: boolean;
  requests: number;
  ticksBetween: number;
  /** Whether others admit these requests, and this window is only told. */
  isRecorded: boolean;
  isReleased: boolean;
  /** How long a client that is refused waits. */
  wait: "not" | "to the moment" | "whole seconds";
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
    isCrowd: fc.integer({ min: 0, max: 59 }).map((side) => side === 0),
    requests: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 40 })),
    ticksBetween: fc.oneof(fc.constant(0), fc.nat(2 ** 10), fc.nat(2 ** 18)),
    isRecorded,
    isReleased: fc.boolean(),
    wait: fc.constantFrom("not" as const, "not" as const, "to the moment" as const, "whole seconds" as const),
  });
  return fc.array(step, { maxLength: 40, size: "max" });
};

/** The same limit as simple as can be: every admission of a client, counted anew for each request. */
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

  take(name: string, now: number): Decision {
    const { requests, windowMs } = this.#limit;
    const isAdmitted = this.#counted(name, now).length < requests;
    if (isAdmitted) this.admit(name, now);
    const times = this.#counted(name, now);
    return {
      isAdmitted,
      remaining: Math.max(0, requests - times.length),
      resetMs: (times.at(-requests) ?? times[0] ?? Number.NaN) + windowMs - now,
    };
  }

  #counted(name: string, now: number): number[] {
    return (this.admissions.get(name) ?? []).filter((time) => time > now - this.#limit.windowMs);
  }
}

/** Throws where the window decides otherwise than the model. Returns what it admitted by itself. */
const replay = (limit: Limit, steps: readonly Step[], counts: { admitted: number; refused: number }) => {
  const { clock, window } = createWindow(limit);
  const model = new Model(limit);
  const admitted = new Map<string, number[]>();

  const take = (name: string): Decision => {
    const [decision, expected] = [window.take(name), model.take(name, clock.now)];
    const isSame =
      decision.isAdmitted === expected.isAdmitted &&
      decision.remaining === expected.remaining &&
      decision.resetMs === expected.resetMs;
    if (!isSame) {
      const shown = [decision, expected].map((value) => JSON.stringify(value));
      throw new Error(`at ${clock.now}, ${name} is told ${shown[0]} instead of ${shown[1]}`);
    }
    counts[decision.isAdmitted ? "admitted" : "refused"]++;
    if (decision.isAdmitted) admitted.set(name, [...(admitted.get(name) ?? []), clock.now]);
    return decision;
  };
  const mustBe = (isAdmitted: boolean, name: string, when: string) => {
    if (take(name).isAdmitted !== isAdmitted)
      throw new Error(`${name} is not ${isAdmitted ? "admitted" : "refused"} ${when}`);
  };

  for (const { pause, client, isCrowd, requests, ticksBetween, isRecorded, isReleased, wait } of steps) {
    clock.now += Math.max(0, pause.windows * limit.windowMs + pause.ticks * TICK);
    const arrivals = isCrowd ? requests * 50 : requests;
    let decision: Decision | null = null;
    for (let arrival = 0; arrival < arrivals; arrival++) {
      const name = isCrowd ? `stranger ${arrival}` : `client ${client}`;
      if (arrival > 0 && !isCrowd) clock.now += ticksBetween * TICK;
      if (isRecorded) {
        window.record(name);
        model.admit(name, clock.now);
      } else decision = take(name);
    }
    if (isReleased) window.release();
    if (isCrowd || decision === null || decision.isAdmitted || wait === "not") continue;
    if (wait === "whole seconds") {
      clock.now += Math.ceil(decision.resetMs / 1000) * 1000;
    } else {
      clock.now += decision.resetMs - TICK;
      mustBe(false, `client ${client}`, "a moment before the time that it was told");
      clock.now += TICK;
    }
    mustBe(true, `client ${client}`, "at the time that it was told");
  }
  return admitted;
};

/** Fails with the seed and the smallest counterexample. */
const holds = <T>(property: fc.IProperty<T>, numRuns: number) => {
  const details = fc.check(property, { numRuns });
  if (details.failed) throw new Error(fc.defaultReportMessage(details), { cause: details.errorInstance });
  return details.numRuns;
};

describe("whatever the arrivals are", () => {
  test("no span of the window's length has more admissions than the limit, and nobody is refused before", () => {
    const counts = { admitted: 0, refused: 0 };
    const property = fc.property(limits, steps(fc.constant(false)), (limit, steps) => {
      for (const [name, times] of replay(limit, steps, counts)) {
        // The span that begins with an admission is the fullest; the one after the limit's last has to lie outside.
        const tooSoon = times.find(
          (time, index) => (times[index + limit.requests] ?? Infinity) - time < limit.windowMs,
        );
        if (tooSoon !== undefined) throw new Error(`${name} has more than its due in the window from ${tooSoon}`);
      }
    });
    const runs = holds(property, RUNS);
    console.log(`${runs} runs: ${counts.admitted} requests admitted, ${counts.refused} refused`);
    expect(runs).toBe(RUNS);
    expect(Math.min(counts.admitted, counts.refused), "enough of both").toBeGreaterThan(RUNS);
  });

  test("what others admitted counts as well; even with too much of it, a client is told when it is admitted next", () => {
    const counts = { admitted: 0, refused: 0 };
    const property = fc.property(limits, steps(fc.boolean()), (limit, steps) => {
      replay(limit, steps, counts);
    });
    const runs = holds(property, RUNS_WITH_OTHERS);
    console.log(`${runs} runs: ${counts.admitted} requests admitted, ${counts.refused} refused`);
    expect(runs).toBe(RUNS_WITH_OTHERS);
    expect(Math.min(counts.admitted, counts.refused), "enough of both").toBeGreaterThan(RUNS_WITH_OTHERS);
  });
});

describe("25 requests in 10 s", () => {
  test("the first 25 are admitted at once, the 26th after the first has left the window", () => {
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

  test("there is no burst at an edge: who asked 24 times just now has one request, not 25", () => {
    const { clock, window } = createWindow();
    window.take("client");
    clock.now = 9_999;
    for (let asked = 0; asked < 24; asked++) window.take("client");
    clock.now = 10_000;
    expect(window.take("client").isAdmitted).toBe(true);
    expect(window.take("client")).toEqual({ isAdmitted: false, remaining: 0, resetMs: 9_999 });
  });

  test("whoever goes on asking while refused is admitted no later for it", () => {
    const { clock, window } = createWindow();
    for (let asked = 0; asked < 25; asked++) window.take("client");
    for (clock.now = 1; clock.now < 10_000; clock.now++) expect(window.take("client").isAdmitted).toBe(false);
    expect(window.take("client").isAdmitted).toBe(true);
  });

  test("one client's requests are no other's", () => {
    const { window } = createWindow();
    for (let asked = 0; asked < 30; asked++) window.take("one");
    expect(window.take("other")).toMatchObject({ isAdmitted: true, remaining: 24 });
  });

  // A real clock's numbers are not as round as those above, and sums of them are rounded: by less than a nanosecond.
  test("by a clock of nanoseconds, too, the time that a client is told is right, within the window, and not zero", () => {
    const NANOSECONDS = 1e6;
    const expectInWindow = ({ isAdmitted, resetMs }: Decision) => {
      if (resetMs > DEFAULT.windowMs) throw new Error(`of a window of 10 s, ${resetMs} ms are left`);
      if (!isAdmitted && resetMs <= 0) throw new Error(`it is refused, and told to ask in ${resetMs} ms`);
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
    expect(holds(property, RUNS)).toBe(RUNS);
  });
});

describe("record()", () => {
  test("what others admitted is taken from the client's budget", () => {
    const { window } = createWindow();
    for (let recorded = 0; recorded < 24; recorded++) window.record("client");
    expect(window.take("client")).toMatchObject({ isAdmitted: true, remaining: 0 });
    expect(window.take("client")).toMatchObject({ isAdmitted: false, remaining: 0 });
    expect(window.take("other")).toMatchObject({ isAdmitted: true, remaining: 24 });
  });

  test("with more than the limit, all that is too many has to leave first", () => {
    const { clock, window } = createWindow();
    for (clock.now = 0; clock.now < 40; clock.now++) window.record("client");
    clock.now = 100;
    // The 16th of 40 is the one whose leaving makes the 25 that count 24.
    expect(window.take("client")).toEqual({ isAdmitted: false, remaining: 0, resetMs: 15 + 10_000 - 100 });
    clock.now = 15 + 10_000 - 1;
    expect(window.take("client")).toEqual({ isAdmitted: false, remaining: 0, resetMs: 1 });
    clock.now = 15 + 10_000;
    expect(window.take("client")).toMatchObject({ isAdmitted: true, remaining: 0 });
  });
});

describe("a crowd", () => {
  const FAMILIES = {
    IPv4: (i: number) =>
      `::ffff:${100 + (i >> 18)}.${100 + ((i >> 12) & 63)}.${100 + ((i >> 6) & 63)}.${100 + (i & 63)}`,
    IPv6: (i: number) => `2001:${(0x1000 + (i >> 8)).toString(16)}:ffff:${((i & 0xff) << 8).toString(16)}::1`,
  };

  test.each(Object.entries(FAMILIES))(
    "a million %s addresses within one window take less than 256 MB, and give it back",
    async (_, addressAt) => {
      const measured = await measure(`
      import { clientOf } from "${ROOT}/api/limits/client-address.ts";
      import { SlidingWindow } from "${ROOT}/api/limits/sliding-window.ts";

      const read = () => {
        // What the first collection finds unused, the second gives back.
        gc();
        gc();
        return process.memoryUsage();
      };
      const addressAt = ${addressAt};
      const clientAt = (i) => clientOf(addressAt(i), undefined, null);
      let now = 0;
      const window = new SlidingWindow(${JSON.stringify(DEFAULT)}, () => now);

      const before = read();
      for (let i = 0; i < 1_000_000; i++) {
        now = i / 101;
        if (!window.take(clientAt(i)).isAdmitted) throw new Error(clientAt(i) + " is refused");
      }
      const size = window.size;
      const full = read();

      const remaining = new Set();
      for (let i = 0; i < 1_000_000; i += 997) remaining.add(window.take(clientAt(i)).remaining);

      const releaseTo = (size) => {
        for (let calls = 0; window.size > size && calls < 1000; calls++) window.release();
        const { heapUsed, arrayBuffers } = read();
        return (heapUsed + arrayBuffers - before.heapUsed - before.arrayBuffers) / 1e6;
      };
      now += ${DEFAULT.windowMs};
      window.take("one who stays");
      const leftForOneMb = releaseTo(1);
      now += ${DEFAULT.windowMs};
      const leftMb = releaseTo(0);
      console.log(JSON.stringify({
        size,
        remaining: [...remaining],
        sizeAfter: window.size,
        takenMb: (full.rss - before.rss) / 1e6,
        leftForOneMb,
        leftMb,
      }));
    `);
      console.log(measured);
      expect(measured.size).toBe(1_000_000);
      expect(measured.takenMb).toBeLessThan(256);
      expect(measured.remaining, "each of a sample has asked once before, early or late").toEqual([23]);
      expect(measured.sizeAfter).toBe(0);
      expect(measured.leftForOneMb, "as long as somebody asks, places are kept, but nobody in them").toBeLessThan(32);
      expect(measured.leftMb).toBeLessThan(2);
    },
  );

  /** Asks as often as there is room. */
  const fill = (window: SlidingWindow, nameOf: (index: number) => string): number => {
    for (let index = 0; index < 2 ** 22; index++) {
      try {
        window.take(nameOf(index));
      } catch (error) {
        if (error instanceof WindowFullError) return index;
        throw error;
      }
    }
    throw new Error("It is never full.");
  };

  test("with more clients than can be told apart, new ones are refused, and known ones limited as ever", () => {
    const { clock, window } = createWindow();
    const clients = fill(window, String);
    expect(clients).toBeGreaterThanOrEqual(1_000_000);
    expect(window.size).toBe(clients);

    expect(() => window.take("new")).toThrow(WindowFullError);
    expect(() => window.record("new"), "what others admitted is no reason to fail").not.toThrow();
    for (let remaining = 23; remaining >= 0; remaining--) {
      expect(window.take("0")).toMatchObject({ isAdmitted: true, remaining });
    }
    expect(window.take("0")).toEqual({ isAdmitted: false, remaining: 0, resetMs: 10_000 });
    expect(window.size).toBe(clients);

    clock.now = 10_000;
    expect(window.take("new"), "as soon as the crowd's time is over").toMatchObject({
      isAdmitted: true,
      remaining: 24,
    });
  });

  test("with more admissions than can be remembered, nobody has more than its due", () => {
    const { clock, window } = createWindow();
    const admissions = fill(window, (index) => String(Math.floor(index / 25)));
    expect(admissions).toBeGreaterThanOrEqual(2_000_000);

    expect(window.take("0")).toEqual({ isAdmitted: false, remaining: 0, resetMs: 10_000 });
    expect(() => window.take(String(Math.floor(admissions / 25)))).toThrow(WindowFullError);
    expect(() => window.take("new")).toThrow(WindowFullError);

    clock.now = 10_000;
    for (const name of ["0", "1", "new"]) expect(window.take(name)).toMatchObject({ isAdmitted: true, remaining: 24 });
  });

  test("a request costs microseconds, however many clients there are", () => {
    const window = new SlidingWindow(DEFAULT);
    const names = Array.from({ length: 50_000 }, (_, index) => `client ${index}`);
    const startedAt = performance.now();
    for (let round = 0; round < 4; round++) for (const name of names) window.take(name);
    const microseconds = ((performance.now() - startedAt) * 1000) / (4 * names.length);
    console.log(`${microseconds.toFixed(2)} µs each`);
    expect(microseconds).toBeLessThan(20);
  });

  test("no request pays for a crowd that has left", () => {
    const { clock, window } = createWindow();
    for (let index = 0; index < 500_000; index++) window.take(`client ${index}`);
    clock.now = 10_000;
    window.take("next");
    expect(window.size, "all but a few are still to be released, by those who ask later").toBeGreaterThan(499_000);
    expect(window.size).toBeLessThan(500_000);
  });
});
