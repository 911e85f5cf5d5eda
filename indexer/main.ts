import { join } from "node:path";
import { parseArgs } from "node:util";
import { refuseBusyPorts } from "../process/ports.ts";
import { loadEnvFiles, logLine, runUntilStopped } from "../process/program.ts";
import { parseAll, parseDatabaseUrl } from "../process/settings.ts";
import { inspectEndpoints } from "./inspect-endpoints.ts";
import { indexerPort, runIndexer } from "./run-indexer.ts";
import { parseIndexerSettings } from "./settings.ts";

// npm run indexer: runs one shard, on a database that it shares with the API. With --check it only tries the endpoints.

const USAGE = `npm run indexer [-- --check]

  --check    tries every RPC endpoint of the settings, prints a table, and starts nothing. It needs no database.
             Exit codes: 0 every chain has an endpoint that is ready, 1 a chain has none, or an endpoint is on
             another chain`;

const readOptions = () => {
  try {
    return parseArgs({ options: { check: { type: "boolean", default: false } } }).values;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new Error(`${error.message}\n\n${USAGE}`);
  }
};

await runUntilStopped(async (signal) => {
  const { check } = readOptions();
  loadEnvFiles(join(import.meta.dirname, ".."));
  if (check) {
    process.exitCode = 1;
    const { chains } = parseIndexerSettings(process.env);
    if (await inspectEndpoints(chains, console.log, signal)) process.exitCode = 0;
    return;
  }
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
