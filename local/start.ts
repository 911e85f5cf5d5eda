import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { apiPort, parseApiSettings } from "../api/settings.ts";
import { indexerPort, runIndexer } from "../indexer/run-indexer.ts";
import { parseIndexerSettings } from "../indexer/settings.ts";
import { refuseBusyPorts } from "../process/ports.ts";
import { claimPidFile, describeError, loadEnvFiles, logLine, runUntilStopped } from "../process/program.ts";
import { parseAll, parseOptionalDatabaseUrl } from "../process/settings.ts";
import { START_DATA } from "./data-folders.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "./embedded-postgres.ts";
import { readFetchedHistory } from "./fetched-history.ts";
import { keepRunning } from "./keep-running.ts";
import { spawnApi } from "./spawn-api.ts";
import { Terminal } from "./terminal.ts";

// npm start: indexer and API on one machine, with an embedded Postgres unless DATABASE_URL is set.

const ROOT = join(import.meta.dirname, "..");
const WATCH_INTERVAL_MS = 500;

const terminal = process.stdout.isTTY ? new Terminal(process.stdout) : undefined;
const log = terminal?.log ?? logLine;

/** Starts an embedded Postgres, and starts it again when it ends, until it is stopped. */
const startOwnPostgres = async () => {
  const { release } = claimPidFile(join(START_DATA, "start.pid"), "local/start.ts");
  const postgres = await startEmbeddedPostgres({ directory: join(START_DATA, "postgres") });
  const stopping = new AbortController();
  const { signal } = stopping;
  let runs = 0;
  const run = () => runPostgres(postgres, runs++ === 0, signal);
  const running = keepRunning({ run, log, signal });
  const stop = async () => {
    stopping.abort();
    await running;
    await postgres.stop().finally(release);
  };
  return { url: postgres.url, stop };
};

/** @param isStarted - true for the first run: a server that has ended since then is not started without a message */
const runPostgres = async (postgres: EmbeddedPostgres, isStarted: boolean, signal: AbortSignal): Promise<string> => {
  try {
    if (!isStarted) await postgres.start();
  } catch (error) {
    log(describeError(error));
    return "The embedded Postgres did not start";
  }
  // The server is not a child of this process.
  while (!signal.aborted && (await postgres.isRunning())) {
    await sleep(WATCH_INTERVAL_MS, undefined, { signal }).catch(() => {});
  }
  return "The embedded Postgres has ended";
};

const runApi = async (env: NodeJS.ProcessEnv, signal: AbortSignal): Promise<string> => {
  const child = spawnApi(env, terminal?.createOutput());
  signal.addEventListener("abort", child.stop, { once: true });
  const { code, signal: endedBy } = await child.exited;
  signal.removeEventListener("abort", child.stop);
  return `The API ended with ${endedBy ?? `code ${code}`}`;
};

await runUntilStopped(async (stopSignal) => {
  loadEnvFiles(ROOT);
  const apiEnv = { ...process.env, INDEX_SCHEMAS: process.env.INDEX_SCHEMAS || process.env.SHARD };
  const [databaseUrl, indexer, api] = parseAll(
    () => parseOptionalDatabaseUrl(process.env),
    () => parseIndexerSettings(process.env),
    () => parseApiSettings(apiEnv),
  );
  await refuseBusyPorts([indexerPort(indexer), apiPort(api)]);
  const postgres = databaseUrl ? { url: databaseUrl, stop: async () => {} } : await startOwnPostgres();

  const stopping = new AbortController();
  const { signal } = stopping;
  stopSignal.addEventListener("abort", () => stopping.abort(), { once: true });
  const run = () => runApi({ ...apiEnv, DATABASE_URL: postgres.url }, signal);
  const running = keepRunning({ run, log, signal }).catch((error) => {
    log(`The API cannot be started: ${describeError(error)}`);
    stopping.abort();
  });
  try {
    await runIndexer(indexer, {
      databaseUrl: postgres.url,
      log,
      output: terminal?.createOutput(),
      logFormat: "json",
      restart: true,
      signal,
      onProgress: terminal && (async (chains) => terminal.showProgress(chains, await readFetchedHistory(indexer))),
      onReady: (schema) => {
        terminal?.showLive();
        log(`Shard "${indexer.shard}" is ready: its views show ${schema}.`);
      },
    });
  } finally {
    stopping.abort();
    await running;
    await postgres.stop();
  }
});
