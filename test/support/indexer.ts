import { onTestFinished } from "vitest";
import { parseIndexerSettings } from "../../indexer/settings.ts";
import { startLocalIndexer } from "../../local/start-local-indexer.ts";
import { describeError } from "../../process/program.ts";
import { findPonderPid, type IndexerOptions, launchIndexerProcess, prepareIndexer } from "./indexer-process.ts";

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
