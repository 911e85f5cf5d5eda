import { createHash } from "node:crypto";
import { Random } from "../test/support/random.ts";

/**
 * Numbers for one use, from the seed and what they are used for: how many are drawn for one thing, which may depend
 * on time, does not change those for another.
 */
export const drawFor = (seed: number, ...use: readonly (string | number)[]): Random =>
  new Random(
    createHash("sha256")
      .update([seed, ...use].join(" "))
      .digest()
      .readUInt32BE(),
  );
