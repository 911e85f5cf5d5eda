import { join } from "node:path";
import { refuseBusyPorts } from "../stack/ports.ts";
import { loadEnvFiles, logLine, runUntilStopped } from "../stack/program.ts";
import { parseAll, parseDatabaseUrl } from "../stack/settings.ts";
import { indexerPort, runIndexer } from "./run-indexer.ts";
import { parseIndexerSettings } from "./settings.ts";

// npm run indexer: one shard, over a database that other parts share.

await runUntilStopped(async (signal) => {
  loadEnvFiles(join(import.meta.dirname, ".."));
  const [databaseUrl, settings] = parseAll(
    () => parseDatabaseUrl(process.env),
    () => parseIndexerSettings(process.env),
  );
  await refuseBusyPorts([indexerPort(settings)]);
  await runIndexer(settings, {
    databaseUrl,
    log: logLine,
    restart: true,
    signal,
    onReady: (schema) => logLine(`Shard "${settings.shard}" is ready: its views show ${schema}.`),
  });
});
