import { createHash } from "node:crypto";
import { relative } from "node:path";
import { ROOT } from "./run.ts";

/** Pseudo-random numbers, the same for the same seed. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** Returns a number in [0, 1). (mulberry32) */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Returns a whole number from first to last, both included. */
  integer(first: number, last: number): number {
    return first + Math.floor(this.next() * (last - first + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(values: readonly [T, ...T[]]): T {
    return values[this.integer(0, values.length - 1)] ?? values[0];
  }
}

/**
 * Creates numbers from a seed and their purpose. How many are drawn for one purpose, which may depend on time, does not
 * change the numbers of another.
 */
export const createRandom = (seed: number, ...use: readonly (string | number)[]): Random =>
  new Random(
    createHash("sha256")
      .update([seed, ...use].join(" "))
      .digest()
      .readUInt32BE(),
  );

/** Creates numbers from a new seed each time, or from SEED to repeat an earlier run. */
export const seededRandom = (testFile: string): Random => {
  const seed = Number(process.env.SEED || Date.now() % 2 ** 32);
  console.log(`Seed ${seed}. To run it again: SEED=${seed} npx vitest run ${relative(ROOT, testFile)}`);
  return new Random(seed);
};

/** Number of cases for a property. npm run test:nightly sets ten times as many. */
export const PROPERTY_RUNS = Number(process.env.PROPERTY_RUNS ?? 1_000);
