import { test } from "vitest";
import { expectCrashRecovery } from "../support/crash-recovery.ts";
import { seededRandom } from "../support/random.ts";

test(
  "an indexer killed five times, during backfill and live, has the same rows as one that was never interrupted",
  {
    timeout: 600_000,
  },
  () =>
    expectCrashRecovery({
      random: seededRandom(import.meta.filename),
      history: 180,
      duringBackfill: ["checkpoints", "changes"],
      live: [0, 4],
      isReindexed: true,
    }),
);
