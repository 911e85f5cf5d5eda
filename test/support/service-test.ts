import { FRESH_FOR_A_DAY, launchApiProcess } from "./api.ts";
import { createPopularDatabase } from "./million.ts";
import { test as base } from "./test.ts";

/** Tests with the API as a process, which they attack or measure: `service`, with the settings of `env`. */
export const test = base.extend("service", { scope: "file" }, async ({ databaseUrl, env }, { onCleanup }) => {
  const service = await launchApiProcess({ databaseUrl, env: { ...FRESH_FOR_A_DAY, LOG_LEVEL: "warn", ...env } });
  onCleanup(() => service.stop());
  return service;
});

/** The same, over a wallet to which many others have delegated: `popular`, with `fans` delegations. */
export const popularTest = test
  .extend("fans", { scope: "file" }, 3_000)
  .extend("popularDatabase", { scope: "file" }, async ({ fans }, { onCleanup }) => {
    const { client, ...created } = await createPopularDatabase(fans);
    onCleanup(() => client.end());
    return created;
  })
  .extend("popular", { scope: "file" }, ({ popularDatabase }) => popularDatabase.popular)
  .extend("databaseUrl", { scope: "file" }, ({ popularDatabase }) => popularDatabase.databaseUrl);
