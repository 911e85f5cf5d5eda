import { expect, test } from "vitest";
import { runScript } from "../../support/run.ts";
import regressions from "../simulation/regressions.json" with { type: "json" };

/** Seeds 11 and 13 once found answers that named a block from before a restart. */
const SEEDS = [11, 13];
const OPS = 350;
const REGRESSION_OPS = 100;

const FAULTS = [
  "range limit",
  "result limit",
  "size limit",
  "rate limit",
  "quota",
  "stalled body",
  "no old logs",
  "old head",
  "silent WebSocket",
  "closed WebSocket",
  "bloom: zeros",
  "bloom: ones",
  "bloom: extra bits",
];

const simulate = async (seed: number, ops: number) => {
  const { code, output } = await runScript(
    "test/slow/simulation/main.ts",
    "--seed",
    String(seed),
    "--ops",
    String(ops),
  );
  expect(code, output).toBe(0);
  return (name: string) => Number(new RegExp(`^  ${name} +(\\d+)$`, "m").exec(output)?.[1] ?? 0);
};

test.concurrent("npm run simulate finds only the registries' own answers or a 503 while all other parts fail", async () => {
  const tallies = await Promise.all(SEEDS.map((seed) => simulate(seed, OPS)));
  const total = (name: string) => tallies.reduce((sum, count) => sum + count(name), 0);

  expect(total("operations")).toBeGreaterThanOrEqual(700);
  expect(total("reorgs")).toBeGreaterThanOrEqual(14);
  expect(total("kills")).toBeGreaterThanOrEqual(4);
  for (const name of ["Postgres restarts", "re-indexes", "digests compared"]) {
    expect(total(name), name).toBeGreaterThanOrEqual(SEEDS.length);
  }
  for (const name of ["RPC calls failed", "RPC lies", "RPC phases", "past blocks"]) {
    expect(total(name), name).toBeGreaterThan(10);
  }
  for (const fault of FAULTS) expect(total(`RPC: ${fault}`), fault).toBeGreaterThan(0);
  for (const name of ["answers over HTTP", "answers in SQL", "reader's answers"]) {
    expect(total(name), name).toBeGreaterThan(1_000);
  }
});

test.concurrent.for(regressions)("npm run simulate passes seed $seed, which once found: $found", async ({ seed }) => {
  await simulate(seed, REGRESSION_OPS);
});
