import { expect, test } from "vitest";
import { runDifferential } from "../../support/differential.ts";
import { seededRandom } from "../../support/random.ts";

test("every answer agrees with the registries, and every row with a fresh index, after 26 reorgs", {
  timeout: 600_000,
}, async () => {
  const compared = await runDifferential({
    random: seededRandom(import.meta.filename),
    history: 10,
    rounds: 40,
    reorgs: 26,
    alsoHalfway: [1, 5],
    blocksBack: [1, 3, 12, 25],
    isReindexed: true,
  });
  expect([...compared.undone]).toEqual(
    expect.arrayContaining(["DelegateForAll", "DelegateForToken", "RevokeDelegate", "DelegateAll", "DelegateERC20"]),
  );
  expect(compared.operations).toBeGreaterThanOrEqual(500);
  expect(compared.answers).toBeGreaterThanOrEqual(5000);
  expect(compared.answersOverHttp).toBeGreaterThanOrEqual(5000);
  expect(compared.answersAboutWallets).toBeGreaterThanOrEqual(4000);
  expect(compared.answersInSql).toBeGreaterThanOrEqual(5000);
  expect(compared.digests).toBeGreaterThanOrEqual(50);
});
