import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startApiProcess } from "./api/process.ts";
import { type ApiSettings, apiPort, parseApiSettings } from "./api/settings.ts";
import { indexerPort, runIndexer } from "./indexer/run-indexer.ts";
import { parseIndexerSettings } from "./indexer/settings.ts";
import { START_DATA } from "./stack/data-folders.ts";
import { startEmbeddedPostgres } from "./stack/embedded-postgres.ts";
import { refuseBusyPorts } from "./stack/ports.ts";
import { claim, describeError, loadEnvFiles, logLine, runUntilStopped } from "./stack/program.ts";
import { parseAll, parseOptionalDatabaseUrl } from "./stack/settings.ts";

// npm start: indexer and API on one machine, with a Postgres of their own where DATABASE_URL names none.

const ROOT = import.meta.dirname;
const FIRST_RESTART_MS = 1_000;
const LONGEST_RESTART_MS = 30_000;

const startOwnPostgres = async () => {
  const { release } = claim(join(START_DATA, "start.pid"), "start.ts");
  const { url, stop } = await startEmbeddedPostgres({ directory: join(START_DATA, "postgres") });
  return { url, stop: () => stop().finally(release) };
};

/** Runs the API until the signal is aborted; when it ends by itself, starts it again. */
const keepApiRunning = async (settings: ApiSettings, databaseUrl: string, signal: AbortSignal): Promise<void> => {
  let restartMs = FIRST_RESTART_MS;
  while (!signal.aborted) {
    const startedAt = Date.now();
    const child = startApiProcess(settings, databaseUrl);
    signal.addEventListener("abort", child.stop, { once: true });
    const { code, signal: endedBy } = await child.exited;
    signal.removeEventListener("abort", child.stop);
    if (signal.aborted) return;

    if (Date.now() - startedAt > LONGEST_RESTART_MS) restartMs = FIRST_RESTART_MS;
    logLine(`The API ended with ${endedBy ?? `code ${code}`}; starting it again in ${restartMs / 1000} s.`);
    await sleep(restartMs, undefined, { signal }).catch(() => {});
    restartMs = Math.min(restartMs * 2, LONGEST_RESTART_MS);
  }
};

await runUntilStopped(async (signal) => {
  loadEnvFiles(ROOT);
  const [databaseUrl, indexer, api] = parseAll(
    () => parseOptionalDatabaseUrl(process.env),
    () => parseIndexerSettings(process.env),
    () => parseApiSettings({ ...process.env, INDEX_SCHEMAS: process.env.INDEX_SCHEMAS || process.env.SHARD }),
  );
  await refuseBusyPorts([indexerPort(indexer), apiPort(api)]);
  const postgres = databaseUrl ? { url: databaseUrl, stop: async () => {} } : await startOwnPostgres();

  const stopping = new AbortController();
  signal.addEventListener("abort", () => stopping.abort(), { once: true });
  const running = keepApiRunning(api, postgres.url, stopping.signal).catch((error) => {
    logLine(`The API cannot be started: ${describeError(error)}`);
    stopping.abort();
  });
  try {
    await runIndexer(indexer, {
      databaseUrl: postgres.url,
      log: logLine,
      restart: true,
      signal: stopping.signal,
      onReady: (schema) => logLine(`Shard "${indexer.shard}" is ready: its views show ${schema}.`),
    });
  } finally {
    stopping.abort();
    await running;
    await postgres.stop();
  }
});
