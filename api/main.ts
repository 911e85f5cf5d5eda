import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { refuseBusyPorts } from "../stack/ports.ts";
import { describeError, loadEnvFiles, runUntilStopped, untilAborted } from "../stack/program.ts";
import { parseAll, parseDatabaseUrl } from "../stack/settings.ts";
import { readBuild } from "./build.ts";
import { Database } from "./database.ts";
import { startLimiter } from "./limits/limiter.ts";
import { createLog } from "./log.ts";
import { startMetricsServer } from "./metrics/metrics-server.ts";
import { keepMigrating } from "./migrate.ts";
import { startServer } from "./server.ts";
import { createService } from "./service.ts";
import { apiPort, parseApiSettings } from "./settings.ts";

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
  const logging = createLog(settings.logLevel);
  const { log } = logging;

  const primary = new Database(databaseUrl, log);
  const { databaseReadUrl } = settings;
  const database = databaseReadUrl === null ? primary : new Database(databaseReadUrl, log, "The read replica");
  const limiter = await startLimiter(settings.limit, settings.limitStoreUrl, log);
  const parts = { primary, database, limiter, build, log: logging };
  const { answer, shards, digests, metrics, usage } = await createService(settings, parts);
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
