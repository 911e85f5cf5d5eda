import { createHash } from "node:crypto";
import { Random } from "../../support/random.ts";

/**
 * Creates random numbers from the seed and their purpose. How many are drawn for one purpose, which may depend on time,
 * does not change the numbers of another.
 */
export const createRandom = (seed: number, ...use: readonly (string | number)[]): Random =>
  new Random(
    createHash("sha256")
      .update([seed, ...use].join(" "))
      .digest()
      .readUInt32BE(),
  );
