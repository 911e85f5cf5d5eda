import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { refuseBusyPorts } from "../stack/ports.ts";
import { describeError, loadEnvFiles, runUntilStopped } from "../stack/program.ts";
import { parseAll, parseDatabaseUrl } from "../stack/settings.ts";
import { createApp } from "./app.ts";
import { Database } from "./database.ts";
import { KeyDirectory } from "./keys/key-directory.ts";
import { KeyUsage } from "./keys/key-usage.ts";
import { startLimiter } from "./limits/limiter.ts";
import { createLog } from "./log.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { startMetricsServer } from "./metrics/metrics-server.ts";
import { keepMigrating } from "./migrate.ts";
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
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const { log, addLine } = createLog(settings.logLevel);

  const database = new Database(databaseUrl, log);
  const shards = new Shards(database, settings.shards, settings.maxIndexLagSeconds);
  const digests = new StateDigests(database, shards);
  const { trustedProxies } = settings;
  const limiter = await startLimiter(settings.limit, settings.limitStoreUrl, log);
  const metrics = createMetrics({ database, shards, limiter, version });
  const usage = new KeyUsage(database);
  const { batches } = metrics;
  const admission = { keys: new KeyDirectory(database, batches.keys), usage, limiter, trustedProxies, metrics };
  const { answer } = createApp(
    { database, shards, batches, digests },
    admission,
    { version, startedAt: new Date() },
    { log, addLine },
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

  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  log.info("Stopping: no new requests");
  await server.stop();
  await usage.write().catch(onUsageError);
  if (!usage.isWritten) log.warn("Some requests with keys were not counted: they could not be written down");
  limiter.close();
  await digesting;
  await database.close();
});
