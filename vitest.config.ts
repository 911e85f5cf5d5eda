import { defineConfig } from "vitest/config";

const SIMULATION = "test/simulate.test.ts";

export default defineConfig({
  test: {
    // The tests start real chains and indexers: two files at a time leave them the machine.
    maxWorkers: 2,
    reporters: ["verbose"],
    projects: [
      {
        test: {
          name: "service",
          include: ["test/**/*.test.ts"],
          exclude: ["test/browser/**", SIMULATION],
          globalSetup: "test/support/global-setup.ts",
          testTimeout: 300_000,
          hookTimeout: 120_000,
        },
      },
      {
        // After all others: it starts three of everything, and would leave them too little of the machine.
        test: {
          name: "simulation",
          include: [SIMULATION],
          sequence: { groupOrder: 1 },
        },
      },
      {
        // npm run test:browser: these alone.
        test: {
          name: "browser",
          include: ["test/browser/**/*.test.ts"],
          globalSetup: ["test/support/global-setup.ts", "test/support/browser-setup.ts"],
          testTimeout: 60_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
