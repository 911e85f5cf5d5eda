import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { refuseBusyPorts } from "../stack/ports.ts";
import { loadEnvFiles, runUntilStopped } from "../stack/program.ts";
import { parseAll, parseDatabaseUrl } from "../stack/settings.ts";
import { createApp } from "./app.ts";
import { Database } from "./database.ts";
import { startServer } from "./server.ts";
import { apiPort, parseApiSettings } from "./settings.ts";
import { Shards } from "./shards.ts";

// npm run api: the public HTTP service, over the database that indexers write to.

const ROOT = join(import.meta.dirname, "..");

await runUntilStopped(async (signal) => {
  loadEnvFiles(ROOT);
  const [databaseUrl, settings] = parseAll(
    () => parseDatabaseUrl(process.env),
    () => parseApiSettings(process.env),
  );
  await refuseBusyPorts([apiPort(settings)]);
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const log = pino({ level: settings.logLevel, base: undefined });

  const database = new Database(databaseUrl, log);
  const shards = new Shards(database, settings.shards, settings.maxIndexLagSeconds);
  const app = createApp({ database, shards, log }, { version, startedAt: new Date() });
  await shards.watch(signal, log);

  const server = await startServer(app.fetch, settings.host, settings.port, (error) =>
    log.error({ err: error }, "The server has a problem"),
  );
  log.info({ host: settings.host, port: server.port, shards: settings.shards }, "Listening");

  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  log.info("Stopping: no new requests");
  await server.stop();
  await database.close();
});
