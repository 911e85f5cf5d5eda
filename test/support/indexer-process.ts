import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { startNode } from "../../stack/child.ts";
import { findFreePort } from "../../stack/ports.ts";
import { keepOutput } from "./output.ts";
import { runningProcesses } from "./processes.ts";

type Endpoint = { chainId: number; url: string };

export type IndexerOptions = {
  databaseUrl: string;
  chains: readonly Endpoint[];
  /** Settings beyond those that point at the database and the chains. */
  env?: NodeJS.ProcessEnv;
};

/** The settings of an indexer over local chains. INDEXER_LOG names a file that gets its output too. */
export const prepareIndexer = async ({ databaseUrl, chains, env = {} }: IndexerOptions) => {
  const port = await findFreePort();
  const { output, printed } = keepOutput();
  if (process.env.INDEXER_LOG) output.pipe(createWriteStream(process.env.INDEXER_LOG, { flags: "a" }));
  const ofChains = chains.flatMap(({ chainId, url }) => [
    [`PONDER_RPC_URL_${chainId}`, url],
    [`START_BLOCK_${chainId}`, "0"],
  ]);
  return {
    port,
    output,
    printed,
    env: {
      DATABASE_URL: databaseUrl,
      INDEXER_PORT: String(port),
      POLLING_INTERVAL_MS: "200",
      ...Object.fromEntries(ofChains),
      ...env,
    },
  };
};

/** `npm run indexer`: for tests that kill it, or read its exit code. The caller stops it. */
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
    /** All that it has printed. */
    output: printed,
    ponderPid: () => findPonder(port),
    /** Kills Ponder the hard way; the indexer starts it again. */
    killPonder: () => killAll(findPonder(port)),
    /** Kills the indexer the hard way, Ponder included. */
    kill: () => killAll(child.pid, findPonder(port)),
  };
};

/** The Ponder that listens on a port, while it runs. */
export const findPonder = (port: number): number | undefined =>
  runningProcesses().find(
    ({ command, environment }) => command.includes("ponder.js") && environment.includes(`\0PORT=${port}\0`),
  )?.pid;
