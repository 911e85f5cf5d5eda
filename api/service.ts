import type { Logger } from "pino";
import { loadAssets } from "../web/build.ts";
import { createApp } from "./app.ts";
import type { Database } from "./database/database.ts";
import { VerificationLimits } from "./developers/verification-limits.ts";
import type { Build } from "./health/health-routes.ts";
import { StateDigests } from "./health/state-digests.ts";
import { InsightsCache } from "./insights/insights-cache.ts";
import { readInsights } from "./insights/read-insights.ts";
import { KeyDirectory } from "./keys/key-directory.ts";
import { KeyUsage } from "./keys/key-usage.ts";
import type { Limiter } from "./limits/limiter.ts";
import { createMetrics } from "./metrics/metrics.ts";
import type { ApiSettings } from "./settings.ts";
import { Shards } from "./shards/shards.ts";

type ServiceDependencies = {
  /** Has API keys and sessions. Never a replica: a new key works at once, and a revoked one for a minute at most. */
  primary: Database;
  /** Has the indexes: the primary, or a replica of it. */
  database: Database;
  limiter: Limiter;
  build: Build;
  log: Logger;
  /** For tests: a clock instead of `performance.now`. */
  now?: () => number;
};

/** Creates the app, its OpenAPI document, and the parts that run in the background. */
export const createService = async (
  settings: ApiSettings,
  { primary, database, limiter, build, log, now }: ServiceDependencies,
) => {
  const { trustedProxies, publicUrl, keysPerWallet } = settings;
  const shards = new Shards(database, settings, now);
  const digests = new StateDigests(database, shards);
  const metrics = createMetrics({ database, primary, shards, limiter, version: build.version });
  const { batches } = metrics;
  const keys = new KeyDirectory(primary, batches.keys, now);
  const usage = new KeyUsage(primary);
  const insights = new InsightsCache(
    () => readInsights(database, shards),
    (error) => log.error({ err: error }, "Cannot read insights"),
  );
  const developerPage = settings.hasDeveloperPage
    ? {
        database: primary,
        keys,
        contracts: { rpcUrls: settings.signInRpcUrls, limits: new VerificationLimits(now) },
        publicUrl,
        keysPerWallet,
        trustedProxies,
      }
    : null;
  const { app, document } = await createApp({
    dependencies: { database, shards, batches, digests, insights },
    admission: { keys, usage, limiter, trustedProxies, metrics },
    build,
    log,
    assets: await loadAssets(),
    developerPage,
  });
  return { app, document, shards, digests, metrics, usage };
};
