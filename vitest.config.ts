import { defineConfig } from "vitest/config";

const timeouts = { testTimeout: 120_000, hookTimeout: 120_000 };

export default defineConfig({
  test: {
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
