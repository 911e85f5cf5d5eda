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

/** `npm run indexer`, over local chains. Who asks for it stops it. */
export const startIndexerProcess = async ({ databaseUrl, chains, env = {} }: IndexerOptions) => {
  const port = await findFreePort();
  const chainSettings = chains.flatMap(({ chainId, url }) => [
    [`PONDER_RPC_URL_${chainId}`, url],
    [`START_BLOCK_${chainId}`, "0"],
  ]);
  const { output, printed } = keepOutput();
  if (process.env.INDEXER_LOG) output.pipe(createWriteStream(process.env.INDEXER_LOG, { flags: "a" }));

  const child = startNode(join(import.meta.dirname, "../../indexer/main.ts"), [], {
    output,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      DATABASE_URL: databaseUrl,
      INDEXER_PORT: String(port),
      POLLING_INTERVAL_MS: "200",
      ...Object.fromEntries(chainSettings),
      ...env,
    },
  });

  return {
    ...child,
    port,
    /** All that it has printed. */
    output: printed,
    ponderPid: () => ponderOf(child.pid),
    /** Kills Ponder the hard way; the indexer starts it again. */
    killPonder: () => {
      const pid = ponderOf(child.pid);
      if (pid !== undefined) process.kill(pid, "SIGKILL");
    },
    /** Kills the indexer the hard way, Ponder included. */
    kill: () => {
      const pids = [child.pid, ponderOf(child.pid)];
      for (const pid of pids) if (pid !== undefined) process.kill(pid, "SIGKILL");
    },
  };
};

/** The Ponder of an indexer, while it runs; tsx may have started a compiler beside it. */
const ponderOf = (indexer: number): number | undefined =>
  runningProcesses().find(({ parent, command }) => parent === indexer && command.includes("ponder.js"))?.pid;
