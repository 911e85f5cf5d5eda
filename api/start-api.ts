import { setTimeout as sleep } from "node:timers/promises";
import { describeError } from "../stack/program.ts";
import { Database } from "./database.ts";
import { startLimiter } from "./limits/limiter.ts";
import type { Log } from "./log.ts";
import { startMetricsServer } from "./metrics/metrics-server.ts";
import { keepMigrating } from "./migrate.ts";
import type { Build } from "./routes/health.ts";
import { startServer } from "./server.ts";
import { createService } from "./service.ts";
import type { ApiSettings } from "./settings.ts";

/** How long the start waits for migrations, which go on by themselves after that. */
const MIGRATION_WAIT_MS = 2_000;

type Options = {
  databaseUrl: string;
  settings: ApiSettings;
  build: Build;
  log: Log;
  /** Measures rate-limit windows, and how long keys are remembered. For tests: another clock than `performance.now`. */
  now?: () => number;
  /** For measurements: another database than Postgres. */
  createDatabase?: (...parameters: ConstructorParameters<typeof Database>) => Database;
};

const connect = (...parameters: ConstructorParameters<typeof Database>) => new Database(...parameters);

/** Starts the public HTTP service in this process, over the database that indexers write to. */
export const startApi = async ({
  databaseUrl,
  settings,
  build,
  log: logging,
  now,
  createDatabase = connect,
}: Options) => {
  const { log } = logging;
  const stopping = new AbortController();
  const { signal } = stopping;

  const primary = createDatabase(databaseUrl, log);
  const { databaseReadUrl } = settings;
  const database = databaseReadUrl === null ? primary : createDatabase(databaseReadUrl, log, "The read replica");
  const limiter = await startLimiter(settings.limit, settings.limitStoreUrl, log, now);
  const parts = { primary, database, limiter, build, log, now };
  const { app, shards, digests, metrics, usage } = await createService(settings, parts);
  await Promise.race([keepMigrating(databaseUrl, signal, log), sleep(MIGRATION_WAIT_MS, undefined, { ref: false })]);
  await shards.watch(signal, log);
  const digesting = digests.watch(signal, log);
  const onUsageError = (error: unknown) => log.error({ err: error }, "Cannot write down how keys were used");
  usage.watch(signal, onUsageError);

  const server = await startServer(app, settings.host, settings.port, (error) =>
    log.error({ err: error }, "The server has a problem"),
  );
  log.info({ host: settings.host, port: server.port, shards: settings.shards }, "Listening");
  const onMetricsError = (error: unknown) => log.error({ err: error }, "Metrics cannot be served");
  const metricsServer = await startMetricsServer(
    metrics,
    settings.metricsHost,
    settings.metricsPort,
    onMetricsError,
  ).catch((error) => {
    log.warn(`No metrics are served, set another METRICS_PORT: ${describeError(error)}`);
    return null;
  });

  return {
    port: server.port,
    /** Finishes the requests in flight, and ends. */
    stop: async () => {
      stopping.abort();
      log.info("Stopping: no new requests");
      await server.stop();
      await usage.write().catch(onUsageError);
      if (!usage.isWritten) log.warn("Some requests with keys were not counted: they could not be written down");
      limiter.close();
      await digesting;
      await Promise.all([...new Set([primary, database])].map((each) => each.close()));
      metricsServer?.close();
      metricsServer?.closeAllConnections();
      logging.close();
    },
  };
};
