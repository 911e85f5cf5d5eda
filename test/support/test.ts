import pg from "pg";
import { test as base } from "vitest";
import { createSampleDatabase, FRESH_FOR_A_DAY, launchApi } from "./api.ts";
import { signInVisitor } from "./developers.ts";
import { launchIndexedSubject } from "./indexed-chain.ts";

/**
 * Tests with the parts that they name. A part starts when the first test names it, and stops after its scope.
 *
 * `samples` is the API over the sandbox's samples: all files share it, so no test changes its data or settings.
 * A file that needs other settings or data has an `api` of its own, and says how it differs:
 * `const test = base.extend("env", { RATE_LIMIT_REQUESTS: "5" }).extend("databaseUrl", () => createDatabase())`.
 * Not `test.override`: files share this module, and an override would reach the files after it.
 */
export const test = base
  .extend("samples", { scope: "worker" }, async ({}, { onCleanup }) => {
    const api = await launchApi({ databaseUrl: await createSampleDatabase(), env: FRESH_FOR_A_DAY });
    onCleanup(() => api.stop());
    return api;
  })
  /** Settings of `api`. */
  .extend("env", { scope: "file" }, (): NodeJS.ProcessEnv => ({}))
  /** Database of `api`: a copy of the samples that this file may change. */
  .extend("databaseUrl", { scope: "file" }, () => createSampleDatabase())
  .extend("database", { scope: "file" }, async ({ databaseUrl }, { onCleanup }) => {
    const database = new pg.Client(databaseUrl);
    database.on("error", () => {});
    await database.connect();
    onCleanup(() => database.end().catch(() => {}));
    return database;
  })
  /** Clock of `api`: `base.extend("now", () => () => clock.now)`. By default the real one. */
  .extend("now", { scope: "file" }, (): (() => number) | undefined => undefined)
  .extend("api", { scope: "file" }, async ({ databaseUrl, env, now }, { onCleanup }) => {
    const api = await launchApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, ...env }, now });
    onCleanup(() => api.stop());
    return api;
  })
  /** A visitor of the developer page of `api` who has signed in. */
  .extend("owner", async ({ api }) => signInVisitor(api))
  /** Seed and number of random blocks of `indexed`. */
  .extend("chainOptions", { scope: "file" }, { seed: 1, blocks: 12, overWebSocket: false })
  /** A random chain that an indexer follows. The tests of a file share it, and leave the index at its newest block. */
  .extend("indexed", { scope: "file" }, async ({ chainOptions }, { onCleanup }) => {
    const indexed = await launchIndexedSubject(chainOptions.seed, chainOptions.blocks, chainOptions);
    onCleanup(() => indexed.stop());
    return indexed;
  });
