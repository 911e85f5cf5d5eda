import { expect, test } from "vitest";
import { MAX_RESTARTS, StallWatch } from "../../indexer/stall-watch.ts";

const TIMEOUT = 100;

const progressAt = (reached: number, chainId = 1) => [{ chainId, start: 0, reached, newest: 0 }];
const headAt = (number: bigint, fetchedAt: number) => new Map([[1, { number, timestamp: 0n, fetchedAt }]]);

test("findStalled() returns a chain with newer blocks whose index has not moved for the timeout", () => {
  const watch = new StallWatch(TIMEOUT);
  expect(watch.findStalled(progressAt(5), headAt(6n, 0), 0)).toBeUndefined();
  expect(watch.findStalled(progressAt(5), headAt(9n, 99), 99)).toBeUndefined();
  expect(watch.findStalled(progressAt(6), headAt(9n, 100), 100)).toBeUndefined();
  expect(watch.findStalled(progressAt(6), headAt(9n, 199), 199)).toBeUndefined();
  expect(watch.findStalled(progressAt(6), headAt(9n, 200), 200)).toEqual({ chainId: 1, reached: 6, restarts: 1 });
});

test("findStalled() ignores a chain at its newest block, and one whose newest block is not known", () => {
  const watch = new StallWatch(TIMEOUT);
  watch.findStalled(progressAt(5), new Map(), 0);
  expect(watch.findStalled(progressAt(5), headAt(5n, 500), 500)).toBeUndefined();
  expect(watch.findStalled(progressAt(5), headAt(9n, 50), 500)).toBeUndefined();
  expect(watch.findStalled(progressAt(5), new Map(), 500)).toBeUndefined();
});

test("findStalled() doubles the timeout with each restart, and gives up until the index moves on", () => {
  const watch = new StallWatch(TIMEOUT);
  let now = 0;
  const waits: number[] = [];
  const stall = (reached: number) => {
    const since = now;
    for (; now < since + 100 * TIMEOUT; now += TIMEOUT) {
      if (!watch.findStalled(progressAt(reached), headAt(99n, now), now)) continue;
      waits.push(now - since);
      watch.startRun(now);
      // Ponder begins at an earlier block, and comes back to the same one.
      watch.findStalled(progressAt(reached - 2), new Map(), now);
      watch.findStalled(progressAt(reached), new Map(), now);
      return;
    }
    waits.push(Number.POSITIVE_INFINITY);
  };
  for (let restart = 0; restart <= MAX_RESTARTS; restart++) stall(5);
  expect(waits).toEqual([100, 200, 400, 800, 1600, Number.POSITIVE_INFINITY]);
  watch.findStalled(progressAt(6), new Map(), now);
  stall(6);
  expect(waits.at(-1)).toBe(100);
});
