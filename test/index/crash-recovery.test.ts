import { test } from "vitest";
import { expectCrashRecovery } from "../support/crash-recovery.ts";
import { seededRandom } from "../support/random.ts";

test("an index agrees with the registries after Ponder is killed during a reorg, and after the indexer is killed", () =>
  expectCrashRecovery({ random: seededRandom(import.meta.filename), share: 0.3, history: 12, live: [4] }));
