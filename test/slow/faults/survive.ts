import { test as base, expect } from "vitest";
import { startCountingStack } from "../../../faults/counting-chain.ts";
import type { Fault } from "../../../faults/faults.ts";
import { runFaults } from "../../../faults/run-faults.ts";
import type { Stack } from "../../../faults/stack.ts";

const LOAD = { connections: 6, perSecond: 60 };
/** The service refuses a request within 2 s; a busy machine may take twice as long. */
const LATEST_MS = 4_000;
/** Longer than any fault, so that no answer is stale. */
const MAX_LAG_SECONDS = "300";

/** Tests with a complete service over a counting chain. */
export const test = base
  /** Creates the service's database, by default the server's first. */
  .extend(
    "createDatabase",
    { scope: "file" },
    (): Parameters<typeof startCountingStack>[0]["createDatabase"] => undefined,
  )
  .extend("stack", { scope: "file" }, async ({ createDatabase }, { onCleanup }) => {
    const apiEnv = { MAX_INDEX_LAG_SECONDS: MAX_LAG_SECONDS };
    const { stack, stop } = await startCountingStack({
      chainIds: [1],
      apiEnv,
      ...(createDatabase && { createDatabase }),
    });
    onCleanup(() => stop());
    return stack;
  });

/**
 * Runs a fault under load, and expects no wrong answer, no failure but a timely 503 during the fault, and recovery
 * with all blocks and without help.
 */
export const expectSurvival = async (stack: Stack, fault: Fault): Promise<{ refused: number }> => {
  const { problems, errors, answered } = await runFaults(stack, [fault], { load: LOAD });
  console.log(`${fault.name}: ${answered} answers, ${errors.length} refusals`);
  expect(problems).toEqual([]);
  expect(errors.filter(({ what }) => !what.startsWith("503 "))).toEqual([]);
  expect(errors.filter(({ ms }) => ms > LATEST_MS)).toEqual([]);
  return { refused: errors.length };
};
