import { expect, test } from "vitest";
import regressions from "../../../faults/simulation/regressions.json" with { type: "json" };
import { runScript } from "../../support/run.ts";
import { isNightly } from "../../support/scale.ts";

/** Seeds 11 and 13 once found answers that named a block from before a restart. 111 meets a stalled body early. */
const SEEDS = isNightly ? [11, 13, Date.now() % 2 ** 32] : [11, 111];
const OPS = isNightly ? 350 : 40;
const REGRESSION_OPS = isNightly ? 100 : 30;

const EVERY_RUN = [
  "ponder-killed",
  "indexer-killed",
  "api-killed",
  "postgres-restart",
  "postgres-crash",
  "re-indexed",
  "reorgs",
  "checkpoints",
  "digests compared",
];
const RPC_FAULTS = [
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
  const { code, output } = await runScript("faults/simulation/main.ts", "--seed", String(seed), "--ops", String(ops));
  expect(code, output).toBe(0);
  return (name: string) => Number(new RegExp(`^  ${name} +(\\d+)$`, "m").exec(output)?.[1] ?? 0);
};

const LIMIT = { timeout: 60 * 60_000 };

test.concurrent(
  "npm run simulate finds only the registries' own answers or a 503 while all other parts fail",
  LIMIT,
  async () => {
    const tallies = await Promise.all(SEEDS.map((seed) => simulate(seed, OPS)));
    for (const count of tallies) {
      expect(count("operations")).toBeGreaterThanOrEqual(OPS);
      for (const name of EVERY_RUN) expect(count(name), name).toBeGreaterThan(0);
    }
    const total = (name: string) => tallies.reduce((sum, count) => sum + count(name), 0);
    expect(total("reorgs")).toBeGreaterThanOrEqual((SEEDS.length * OPS) / 50);
    for (const name of ["RPC calls failed", "RPC lies", "RPC phases"]) expect(total(name), name).toBeGreaterThan(10);
    for (const fault of RPC_FAULTS) expect(total(`RPC: ${fault}`), fault).toBeGreaterThan(0);
    expect(total("past blocks")).toBeGreaterThanOrEqual(SEEDS.length * 4);
    for (const name of ["answers over HTTP", "answers in SQL", "reader's answers"]) {
      expect(total(name), name).toBeGreaterThan(1_000);
    }
  },
);

test.concurrent.for(regressions)(
  "npm run simulate passes seed $seed, which once found: $found",
  LIMIT,
  async ({ seed }) => {
    await simulate(seed, REGRESSION_OPS);
  },
);
