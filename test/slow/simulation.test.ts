import { join } from "node:path";
import { expect, test } from "vitest";
import regressions from "../../simulate/regressions.json" with { type: "json" };
import { startNode } from "../../stack/child.ts";
import { keepOutput } from "../support/output.ts";

/** 11 and 13 once found answers that named a block from before a restart: they stay as they are. */
const SEEDS = [11, 12, 13];
const OPS = 700;
/** What was found once is found again without the whole length. */
const REGRESSION_OPS = 100;
const MINUTES = 15;

const simulate = async (seed: number, ops: number) => {
  const { output, printed } = keepOutput();
  const script = join(import.meta.dirname, "../../simulate/main.ts");
  const { exited } = startNode(script, ["--seed", String(seed), "--ops", String(ops)], { env: process.env, output });
  const { code } = await exited;
  console.log(printed());
  expect(code, printed()).toBe(0);
  return (name: string) => Number(new RegExp(`^  ${name} +(\\d+)$`, "m").exec(printed())?.[1]);
};

test("under failures of everything around it, the service says what the registries say, or nothing", {
  timeout: MINUTES * 60_000,
}, async () => {
  // Side by side: most of a run is waiting.
  const tallies = await Promise.all(SEEDS.map((seed) => simulate(seed, OPS)));
  const total = (name: string) => tallies.reduce((sum, count) => sum + count(name), 0);

  expect(total("operations")).toBeGreaterThanOrEqual(2_000);
  expect(total("reorgs")).toBeGreaterThanOrEqual(40);
  expect(total("kills")).toBeGreaterThanOrEqual(10);
  for (const name of ["Postgres restarts", "re-indexes", "digests compared"]) {
    expect(total(name), name).toBeGreaterThanOrEqual(SEEDS.length);
  }
  for (const name of ["RPC calls failed", "RPC lies", "past blocks"]) expect(total(name), name).toBeGreaterThan(10);
  for (const name of ["answers over HTTP", "answers in SQL", "reader's answers"]) {
    expect(total(name), name).toBeGreaterThan(1_000);
  }
});

test.for(regressions)("seed $seed: $found", { timeout: 600_000 }, async ({ seed }) => {
  await simulate(seed, REGRESSION_OPS);
});
