import type { Logger } from "pino";
import { loadAssets } from "../web/build.ts";
import { createApp } from "./app.ts";
import type { Database } from "./database.ts";
import { Insights } from "./insights.ts";
import { KeyDirectory } from "./keys/key-directory.ts";
import { KeyUsage } from "./keys/key-usage.ts";
import type { Limiter } from "./limits/limiter.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { loadVerifierLater } from "./portal/load-verifier.ts";
import { readInsights } from "./queries/read-insights.ts";
import type { Build } from "./routes/health.ts";
import type { ApiSettings } from "./settings.ts";
import { Shards } from "./shards.ts";
import { StateDigests } from "./state-digests.ts";

type Parts = {
  /** Where keys are, and the developer page's sessions: a new key works at once, and a revoked one does not outlive its minute. */
  primary: Database;
  /** Where answers come from: the same, or a replica of it. */
  database: Database;
  limiter: Limiter;
  build: Build;
  log: Logger;
  /** For tests: another clock than `performance.now`. */
  now?: () => number;
};

/** The service as settings want it: what answers requests and describes it, and what its process keeps going beside. */
export const createService = async (settings: ApiSettings, { primary, database, limiter, build, log, now }: Parts) => {
  const { trustedProxies, publicUrl, keysPerWallet } = settings;
  const shards = new Shards(database, settings.shards, settings.maxIndexLagSeconds);
  const digests = new StateDigests(database, shards);
  const metrics = createMetrics({ database, primary, shards, limiter, version: build.version });
  const { batches } = metrics;
  const keys = new KeyDirectory(primary, batches.keys, now);
  const usage = new KeyUsage(primary);
  const insights = new Insights(
    () => readInsights(database),
    (error) => log.error({ err: error }, "Cannot read what the insights page shows"),
  );
  const portal = settings.hasDeveloperPortal
    ? { database: primary, keys, verify: loadVerifierLater(settings.rpcUrls), publicUrl, keysPerWallet }
    : null;
  const { app, document } = createApp(
    { database, shards, batches, digests, insights },
    { keys, usage, limiter, trustedProxies, metrics },
    build,
    log,
    await loadAssets(),
    portal,
  );
  return { app, document, shards, digests, metrics, usage };
};
