import { defineConfig } from "vitest/config";

const timeouts = { testTimeout: 120_000, hookTimeout: 60_000 };
const SIMULATION = "test/slow/simulation.test.ts";

export default defineConfig({
  test: {
    projects: [
      {
        // npm test. The files share their modules: loading the service takes longer than most of them.
        test: {
          name: "fast",
          include: ["test/{unit,api,index,commands}/**/*.test.ts"],
          globalSetup: "test/support/global-setup.ts",
          isolate: false,
          maxWorkers: 2,
          ...timeouts,
        },
      },
      {
        // npm test, too; npm run test:browser runs these alone.
        test: {
          name: "browser",
          include: ["test/browser/**/*.test.ts"],
          globalSetup: ["test/support/global-setup.ts", "test/support/browser-setup.ts"],
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
          ...timeouts,
        },
      },
      {
        // npm run test:slow.
        test: {
          name: "slow",
          include: ["test/slow/**/*.test.ts", "test/**/*.property.test.ts"],
          env: { PROPERTY_RUNS: "10000" },
          exclude: [SIMULATION],
          globalSetup: "test/support/global-setup.ts",
          testTimeout: 300_000,
          hookTimeout: 120_000,
          maxWorkers: 2,
          sequence: { groupOrder: 2 },
        },
      },
      {
        // npm run test:slow. It starts three of everything, and has the machine to itself.
        test: { name: "simulation", include: [SIMULATION], sequence: { groupOrder: 3 } },
      },
    ],
  },
});
