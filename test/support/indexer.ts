import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { onTestFinished } from "vitest";
import { parseIndexerSettings } from "../../indexer/settings.ts";
import { startLocalIndexer } from "../../local/start-local-indexer.ts";
import { startNode } from "../../process/child.ts";
import { findFreePort } from "../../process/ports.ts";
import { describeError } from "../../process/program.ts";
import { listProcesses } from "./processes.ts";
import { captureOutput } from "./run.ts";

type Endpoint = { chainId: number; url: string };

export type IndexerOptions = {
  databaseUrl: string;
  chains: readonly Endpoint[];
  /** Further settings, besides database and chains. */
  env?: NodeJS.ProcessEnv;
};

/** Prepares the settings of an indexer over local chains. INDEXER_LOG names a file for a copy of its output. */
const prepareIndexer = async ({ databaseUrl, chains, env = {} }: IndexerOptions) => {
  const port = await findFreePort();
  const { output, printed } = captureOutput();
  if (process.env.INDEXER_LOG) output.pipe(createWriteStream(process.env.INDEXER_LOG, { flags: "a" }));
  const ofChains = chains.flatMap(({ chainId, url }) => [
    [`PONDER_RPC_URL_${chainId}`, url],
    [`START_BLOCK_${chainId}`, "0"],
  ]);
  return {
    port,
    output,
    /** Without colours: Ponder prints them where CI is set. */
    printed: () => stripVTControlCharacters(printed()),
    env: {
      DATABASE_URL: databaseUrl,
      INDEXER_PORT: String(port),
      POLLING_INTERVAL_MS: "200",
      ...Object.fromEntries(ofChains),
      ...env,
    },
  };
};

/** Launches `npm run indexer`, for tests that kill it or read its exit code. The caller stops it. */
export const launchIndexerProcess = async (options: IndexerOptions) => {
  const { port, output, printed, env } = await prepareIndexer(options);
  const child = startNode(join(import.meta.dirname, "../../indexer/main.ts"), [], {
    output,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
  });
  const killAll = (...pids: (number | undefined)[]) => {
    for (const pid of pids) if (pid !== undefined) process.kill(pid, "SIGKILL");
  };
  return {
    ...child,
    port,
    /** Returns its output so far. */
    output: printed,
    ponderPid: () => findPonderPid(port),
    /** Sends SIGKILL to Ponder; the indexer restarts it. */
    killPonder: () => killAll(findPonderPid(port)),
    /** Sends SIGKILL to the indexer and Ponder. */
    kill: () => killAll(child.pid, findPonderPid(port)),
  };
};

/** Finds the running Ponder that listens on a port. */
const findPonderPid = (port: number): number | undefined =>
  listProcesses().find(
    ({ command, environment }) => command.includes("ponder.js") && environment.includes(`\0PORT=${port}\0`),
  )?.pid;

/** Launches an indexer in this process, with Ponder as its child. The caller stops it. */
export const launchIndexer = async (options: IndexerOptions) => {
  const { output, printed, env, port } = await prepareIndexer(options);
  const log = (message: string) => output.write(`${message}\n`);
  const { databaseUrl } = options;
  const { exited, stop } = startLocalIndexer(parseIndexerSettings(env), { databaseUrl, log, output, restart: true });
  const ended = exited.catch((error) => {
    log(describeError(error));
  });
  return {
    port,
    /** Resolves when it has ended, for any reason. */
    ended,
    /** Returns its output so far. */
    output: printed,
    /** Sends SIGKILL to Ponder; the indexer restarts it. */
    killPonder: () => {
      const pid = findPonderPid(port);
      if (pid !== undefined) process.kill(pid, "SIGKILL");
    },
    stop,
  };
};

/** Starts an indexer in this process until the test is over. */
export const startIndexer = async (options: IndexerOptions) => {
  const indexer = await launchIndexer(options);
  onTestFinished(indexer.stop);
  return indexer;
};

/** Starts `npm run indexer` until the test is over. */
export const startIndexerProcess = async (options: IndexerOptions) => {
  const indexer = await launchIndexerProcess(options);
  onTestFinished(indexer.stop);
  return indexer;
};
