import { setTimeout as sleep } from "node:timers/promises";
import { describeError } from "../process/program.ts";
import { createApp } from "./app.ts";
import { Database } from "./database/database.ts";
import { keepMigrating } from "./database/migrate.ts";
import type { Build } from "./health/health-routes.ts";
import { forgetRevokedKeys } from "./keys/forget-revoked-keys.ts";
import type { SharedWindow } from "./limits/shared-window.ts";
import { SlidingWindow } from "./limits/sliding-window.ts";
import type { ApiLog } from "./metrics/log.ts";
import { startMetricsServer } from "./metrics/metrics-server.ts";
import { startServer } from "./server.ts";
import type { ApiSettings } from "./settings.ts";

/** The start waits this long for migrations, which then continue in the background. */
const MIGRATION_WAIT_MS = 2_000;

type Options = {
  databaseUrl: string;
  settings: ApiSettings;
  build: Build;
  log: ApiLog;
  /** For tests: a clock instead of `performance.now`, for rate-limit windows, cached keys and the age of states. */
  now?: () => number;
  /** For measurements: a database instead of Postgres. */
  createDatabase?: (...parameters: ConstructorParameters<typeof Database>) => Database;
};

const connect = (...parameters: ConstructorParameters<typeof Database>) => new Database(...parameters);

/** Starts the public HTTP API in this process, over the database that indexers write to. */
export const startApi = async ({
  databaseUrl,
  settings,
  build,
  log: { log, close: closeLog },
  now,
  createDatabase = connect,
}: Options) => {
  const stopping = new AbortController();
  const { signal } = stopping;

  const primary = createDatabase(databaseUrl, log);
  const { databaseReadUrl } = settings;
  const database = databaseReadUrl === null ? primary : createDatabase(databaseReadUrl, log, "The read replica");
  const window = new SlidingWindow(settings.limit, now);
  const { limitStoreUrl } = settings;
  const sharedWindow =
    limitStoreUrl === null ? null : await connectSharedWindow(limitStoreUrl, settings.limit, window, log);
  const dependencies = { primary, database, limiter: sharedWindow ?? window, build, log, now };
  const { app, shards, digests, metrics, usage, feed, webhooks } = await createApp(settings, dependencies);
  const migrating = keepMigrating(databaseUrl, signal, log);
  await Promise.race([migrating, sleep(MIGRATION_WAIT_MS, undefined, { ref: false })]);
  migrating.catch((error) => log.error(describeError(error)));
  await shards.watch(signal, log);
  const watchingDigests = digests.watch(signal, log);
  const onUsageError = (error: unknown) => log.error({ err: error }, "Cannot store API key usage");
  usage.watch(signal, onUsageError);
  webhooks?.start();
  forgetRevokedKeys(primary, signal, (error) => log.error({ err: error }, "Cannot delete revoked API keys"));

  const server = await startServer(app, settings.host, settings.port, (error) =>
    log.error({ err: error }, "HTTP server error"),
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
    /** Finishes the requests in flight, then closes everything. */
    stop: async () => {
      stopping.abort();
      log.info("Stopping: accepting no new requests");
      feed.stop();
      await Promise.all([server.stop(), webhooks?.stop()]);
      await usage.write().catch(onUsageError);
      if (!usage.isWritten) log.warn("Usage of API keys is lost: it could not be stored");
      sharedWindow?.close();
      await watchingDigests;
      await Promise.all([...new Set([primary, database])].map((each) => each.close()));
      metricsServer?.close();
      metricsServer?.closeAllConnections();
      closeLog();
    },
  };
};

/** Imports Redis' client on demand: loading it takes half a second of processor time, and most setups have no store. */
const connectSharedWindow = async (...parameters: Parameters<typeof SharedWindow.connect>): Promise<SharedWindow> => {
  const { SharedWindow } = await import("./limits/shared-window.ts");
  return SharedWindow.connect(...parameters);
};
