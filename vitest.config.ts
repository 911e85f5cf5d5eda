import { existsSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const timeouts = { testTimeout: 240_000, hookTimeout: 240_000 };

/** Files that take over 100 s. They start first, so that no worker runs one of them alone at the end. */
const LONGEST = [
  "slow/faults/providers",
  "slow/long/fuzz",
  "slow/long/differential",
  "slow/faults/deep-reorg",
  "slow/faults/postgres-forgets",
  "slow/faults/embedded-postgres",
  "slow/faults/crash-recovery",
  "slow/commands/dev",
  "slow/browser/explorer",
  "slow/faults/rpc-node-behind",
  "slow/faults/read-replica",
  "slow/faults/quiet-chain",
];
for (const name of LONGEST) {
  if (!existsSync(join(import.meta.dirname, `test/${name}.test.ts`)))
    throw new Error(`LONGEST names no file: ${name}.`);
}

/** Starts a Docker engine and builds the images, for which CI has no time. */
const ENGINE = "test/slow/containers/stack.test.ts";

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const index = LONGEST.findIndex((name) => moduleId.endsWith(`test/${name}.test.ts`));
      return index === -1 ? LONGEST.length : index;
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        // npm test. The files share their modules: loading the service takes longer than most files.
        test: {
          name: "fast",
          include: ["test/{unit,api,client,index,commands,browser}/**/*.test.ts"],
          globalSetup: "test/support/global-setup.ts",
          isolate: false,
          maxWorkers: 2,
          ...timeouts,
        },
      },
      {
        // npm run test:slow.
        test: {
          name: "slow",
          include: ["test/slow/**/*.test.ts"],
          exclude: ["test/slow/alone/**", ENGINE],
          globalSetup: "test/support/global-setup.ts",
          testTimeout: 300_000,
          hookTimeout: 120_000,
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        // npm run test:slow. Each of these files needs the whole machine.
        test: {
          name: "alone",
          include: ["test/slow/alone/*.test.ts"],
          globalSetup: "test/support/global-setup.ts",
          testTimeout: 15 * 60_000,
          hookTimeout: 120_000,
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
      {
        // npm run test:nightly. The same tests with more operations, rows, seeds or minutes.
        test: {
          name: "nightly",
          include: ["test/slow/long/*.test.ts", ENGINE, "test/**/*.property.test.ts"],
          env: { NIGHTLY: "1", PROPERTY_RUNS: "10000" },
          globalSetup: "test/support/global-setup.ts",
          testTimeout: 90 * 60_000,
          hookTimeout: 240_000,
          maxWorkers: 1,
        },
      },
    ],
  },
});
