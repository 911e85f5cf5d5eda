import { join } from "node:path";
import { refuseBusyPorts } from "../stack/ports.ts";
import { loadEnvFiles, runUntilStopped, untilAborted } from "../stack/program.ts";
import { parseAll, parseDatabaseUrl } from "../stack/settings.ts";
import { readBuild } from "./build.ts";
import { createLog } from "./log.ts";
import { apiPort, parseApiSettings } from "./settings.ts";
import { startApi } from "./start-api.ts";

// npm run api: the public HTTP service, over the database that indexers write to.

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
