import { join } from "node:path";
import { startEmbeddedPostgres } from "../sandbox/embedded-postgres.ts";
import { loadEnvFiles, runUntilStopped } from "../sandbox/program.ts";
import { runIndexer } from "./run-indexer.ts";
import { parseIndexerSettings } from "./settings.ts";

const ROOT = join(import.meta.dirname, "..");
const log = (message: string) => console.log(message);

loadEnvFiles(ROOT);

await runUntilStopped(async (signal) => {
  const settings = parseIndexerSettings(process.env);
  const postgres = settings.databaseUrl
    ? null
    : await startEmbeddedPostgres({ directory: join(ROOT, ".data/postgres") });
  const databaseUrl = settings.databaseUrl ?? postgres?.url ?? "";
  try {
    await runIndexer(settings, {
      databaseUrl,
      log,
      restart: true,
      signal,
      onReady: (schema) => log(`Shard "${settings.shard}" is ready: its views show ${schema}.`),
    });
  } finally {
    await postgres?.stop();
  }
});
