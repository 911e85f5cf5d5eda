import { join } from "node:path";
import { startEmbeddedPostgres } from "../stack/embedded-postgres.ts";
import { claim, loadEnvFiles, logLine, runUntilStopped } from "../stack/program.ts";
import { refuseBusyPort, runIndexer } from "./run-indexer.ts";
import { parseIndexerSettings } from "./settings.ts";

// npm run indexer: one shard, over a database that other parts share.
// npm start: the same with a Postgres of its own, where DATABASE_URL names none.

const ROOT = join(import.meta.dirname, "..");

const startOwnPostgres = async () => {
  const { release } = claim(join(ROOT, ".data/start.pid"), "indexer/main.ts");
  const { url, stop } = await startEmbeddedPostgres({ directory: join(ROOT, ".data/postgres") });
  return { url, stop: () => stop().finally(release) };
};

await runUntilStopped(async (signal) => {
  loadEnvFiles(ROOT);
  const settings = parseIndexerSettings(process.env, {
    needsDatabase: !process.argv.includes("--own-postgres"),
  });
  await refuseBusyPort(settings);
  const postgres = settings.databaseUrl
    ? { url: settings.databaseUrl, stop: async () => {} }
    : await startOwnPostgres();
  try {
    await runIndexer(settings, {
      databaseUrl: postgres.url,
      log: logLine,
      restart: true,
      signal,
      onReady: (schema) => logLine(`Shard "${settings.shard}" is ready: its views show ${schema}.`),
    });
  } finally {
    await postgres.stop();
  }
});
