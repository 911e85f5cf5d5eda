import { expect, test } from "vitest";
import { runDifferential } from "../../support/differential.ts";
import { seededRandom } from "../../support/random.ts";
import { isNightly } from "../../support/run.ts";

const SIZE = isNightly
  ? { history: 10, rounds: 40, reorgs: 26, alsoHalfway: [1, 5], blocksBack: [1, 3, 12, 25] }
  : { history: 10, rounds: 20, reorgs: 13, blocksBack: [12] };
const LEAST = isNightly
  ? {
      operations: 500,
      answers: 50_000,
      answersOverHttp: 50_000,
      answersAboutWallets: 4_000,
      answersInSql: 20_000,
      digests: 50,
    }
  : {
      operations: 300,
      answers: 50_000,
      answersOverHttp: 20_000,
      answersAboutWallets: 2_000,
      answersInSql: 10_000,
      digests: 16,
    };

test(`every answer agrees with the registries, and every row with a fresh index, after ${SIZE.reorgs} reorgs`, {
  timeout: 900_000,
}, async () => {
  const compared = await runDifferential({ random: seededRandom(import.meta.filename), ...SIZE, isReindexed: true });
  expect([...compared.undone]).toEqual(
    expect.arrayContaining(["DelegateForAll", "DelegateForToken", "RevokeDelegate", "DelegateAll", "DelegateERC20"]),
  );
  for (const [name, least] of Object.entries(LEAST)) {
    expect(compared[name as keyof typeof LEAST], name).toBeGreaterThanOrEqual(least);
  }
});
