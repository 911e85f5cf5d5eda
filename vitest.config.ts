import { defineConfig } from "vitest/config";

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
          exclude: ["test/browser/**"],
          globalSetup: "test/support/global-setup.ts",
          testTimeout: 300_000,
          hookTimeout: 120_000,
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
