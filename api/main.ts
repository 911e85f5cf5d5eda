import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { refuseBusyPorts } from "../stack/ports.ts";
import { describeError, loadEnvFiles, runUntilStopped, untilAborted } from "../stack/program.ts";
import { parseAll, parseDatabaseUrl } from "../stack/settings.ts";
import { loadAssets } from "../web/build.ts";
import { createApp } from "./app.ts";
import { readBuild } from "./build.ts";
import { Database } from "./database.ts";
import { Insights } from "./insights.ts";
import { KeyDirectory } from "./keys/key-directory.ts";
import { KeyUsage } from "./keys/key-usage.ts";
import { startLimiter } from "./limits/limiter.ts";
import { createLog } from "./log.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { startMetricsServer } from "./metrics/metrics-server.ts";
import { keepMigrating } from "./migrate.ts";
import { loadVerifierLater } from "./portal/load-verifier.ts";
import { readInsights } from "./queries/read-insights.ts";
import { startServer } from "./server.ts";
import { apiPort, parseApiSettings } from "./settings.ts";
import { Shards } from "./shards.ts";
import { StateDigests } from "./state-digests.ts";

// npm run api: the public HTTP service, over the database that indexers write to.

const ROOT = join(import.meta.dirname, "..");
/** For what can be done later as well. */
const LONGEST_WAIT_MS = 2_000;

await runUntilStopped(async (signal) => {
  loadEnvFiles(ROOT);
  const [databaseUrl, settings] = parseAll(
    () => parseDatabaseUrl(process.env),
    () => parseApiSettings(process.env),
  );
  await refuseBusyPorts([apiPort(settings)]);
  const build = readBuild(process.env);
  const { log, addLine } = createLog(settings.logLevel);

  const primary = new Database(databaseUrl, log);
  const { databaseReadUrl } = settings;
  // Keys stay with the primary: a new one works at once, and a revoked one does not outlive its minute.
  const database = databaseReadUrl === null ? primary : new Database(databaseReadUrl, log, "The read replica");
  const shards = new Shards(database, settings.shards, settings.maxIndexLagSeconds);
  const digests = new StateDigests(database, shards);
  const { trustedProxies } = settings;
  const limiter = await startLimiter(settings.limit, settings.limitStoreUrl, log);
  const metrics = createMetrics({ database, primary, shards, limiter, version: build.version });
  const usage = new KeyUsage(primary);
  const { batches } = metrics;
  const insights = new Insights(
    () => readInsights(database),
    (error) => log.error({ err: error }, "Cannot read what the insights page shows"),
  );
  const keys = new KeyDirectory(primary, batches.keys);
  const admission = { keys, usage, limiter, trustedProxies, metrics };
  const { publicUrl, keysPerWallet } = settings;
  const portal = settings.hasDeveloperPortal
    ? { database: primary, keys, verify: loadVerifierLater(settings.rpcUrls), publicUrl, keysPerWallet }
    : null;
  const { answer } = createApp(
    { database, shards, batches, digests, insights },
    admission,
    build,
    { log, addLine },
    await loadAssets(),
    portal,
  );
  await Promise.race([keepMigrating(databaseUrl, signal, log), sleep(LONGEST_WAIT_MS, undefined, { ref: false })]);
  await shards.watch(signal, log);
  const digesting = digests.watch(signal, log);
  const onUsageError = (error: unknown) => log.error({ err: error }, "Cannot write down how keys were used");
  usage.watch(signal, onUsageError);

  const server = await startServer(answer, settings.host, settings.port, (error) =>
    log.error({ err: error }, "The server has a problem"),
  );
  log.info({ host: settings.host, port: server.port, shards: settings.shards }, "Listening");
  const onMetricsError = (error: unknown) => log.error({ err: error }, "Metrics cannot be served");
  await startMetricsServer(metrics, settings.metricsHost, settings.metricsPort, onMetricsError).catch((error) =>
    log.warn(`No metrics are served, set another METRICS_PORT: ${describeError(error)}`),
  );

  await untilAborted(signal);
  log.info("Stopping: no new requests");
  await server.stop();
  await usage.write().catch(onUsageError);
  if (!usage.isWritten) log.warn("Some requests with keys were not counted: they could not be written down");
  limiter.close();
  await digesting;
  await Promise.all([...new Set([primary, database])].map((each) => each.close()));
});
