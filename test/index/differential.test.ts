import { expect, test } from "vitest";
import { runDifferential } from "../support/differential.ts";
import { seededRandom } from "../support/random.ts";

test("index, API, explorer, SQL and digests agree with the registries after random operations and reorgs", {
  timeout: 300_000,
}, async () => {
  const random = seededRandom(import.meta.filename);
  const compared = await runDifferential({ random, share: 0.3, history: 4, rounds: 6, reorgs: 6, blocksBack: [4] });
  expect(compared.operations).toBeGreaterThanOrEqual(150);
  expect(compared.undone.size).toBeGreaterThanOrEqual(5);
});
