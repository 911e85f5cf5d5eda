import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

const timeouts = { testTimeout: 120_000, hookTimeout: 120_000 };

/** The files that take over 100 s. They start first, so that no worker is left alone with one of them at the end. */
const LONGEST = [
  "slow/differential",
  "slow/faults/postgres-forgets",
  "slow/crash-recovery",
  "slow/commands/dev",
  "slow/browser/explorer",
  "slow/faults/rpc-node-behind",
  "slow/faults/read-replica",
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const place = LONGEST.findIndex((name) => moduleId.endsWith(`test/${name}.test.ts`));
      return place === -1 ? LONGEST.length : place;
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        // npm test. The files share their modules: loading the service takes longer than most of them.
        test: {
          name: "fast",
          include: ["test/{unit,api,index,commands,browser}/**/*.test.ts"],
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
          include: ["test/slow/**/*.test.ts", "test/**/*.property.test.ts"],
          env: { PROPERTY_RUNS: "10000" },
          exclude: ["test/slow/alone/**"],
          globalSetup: "test/support/global-setup.ts",
          testTimeout: 300_000,
          hookTimeout: 120_000,
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        // npm run test:slow. Each of these needs the machine to itself.
        test: {
          name: "alone",
          include: ["test/slow/alone/*.test.ts"],
          testTimeout: 15 * 60_000,
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
