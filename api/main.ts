import { join } from "node:path";
import { refuseBusyPorts } from "../process/ports.ts";
import { loadEnvFiles, runUntilStopped, untilAborted } from "../process/program.ts";
import { parseAll, parseDatabaseUrl } from "../process/settings.ts";
import { readBuild } from "./health/read-build.ts";
import { createLog } from "./metrics/log.ts";
import { apiPort, parseApiSettings } from "./settings.ts";
import { startApi } from "./start-api.ts";

// npm run api: serves the public HTTP API from the database that indexers write to.

const ROOT = join(import.meta.dirname, "..");

await runUntilStopped(async (signal) => {
  loadEnvFiles(ROOT);
  const [databaseUrl, settings] = parseAll(
    () => parseDatabaseUrl(process.env),
    () => parseApiSettings(process.env),
  );
  await refuseBusyPorts([apiPort(settings)]);
  const log = createLog(settings.logLevel);
  process.once("exit", log.close);
  const api = await startApi({ databaseUrl, settings, build: readBuild(process.env), log });
  await untilAborted(signal);
  await api.stop();
});
