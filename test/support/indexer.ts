import { onTestFinished } from "vitest";
import { runIndexer } from "../../indexer/run-indexer.ts";
import { parseIndexerSettings } from "../../indexer/settings.ts";
import { describeError } from "../../stack/program.ts";
import { findPonder, type IndexerOptions, launchIndexerProcess, prepareIndexer } from "./indexer-process.ts";

/** An indexer in this process, with its Ponder beside it. The caller stops it. */
export const launchIndexer = async (options: IndexerOptions) => {
  const { output, printed, env, port } = await prepareIndexer(options);
  const stopping = new AbortController();
  const log = (message: string) => output.write(`${message}\n`);
  const { databaseUrl } = options;
  const ended = runIndexer(parseIndexerSettings(env), {
    databaseUrl,
    log,
    output,
    restart: true,
    signal: stopping.signal,
  }).catch((error) => {
    if (!stopping.signal.aborted) log(describeError(error));
  });
  return {
    port,
    /** Settles when it has ended, for whatever reason. */
    ended,
    /** All that it has printed. */
    output: printed,
    /** Kills Ponder the hard way; the indexer starts it again. */
    killPonder: () => {
      const pid = findPonder(port);
      if (pid !== undefined) process.kill(pid, "SIGKILL");
    },
    stop: async () => {
      stopping.abort();
      await ended;
    },
  };
};

/** The same until the test is over. */
export const startIndexer = async (options: IndexerOptions) => {
  const indexer = await launchIndexer(options);
  onTestFinished(indexer.stop);
  return indexer;
};

/** `npm run indexer`, until the test is over: for tests that kill it, or read its exit code. */
export const startIndexerProcess = async (options: IndexerOptions) => {
  const indexer = await launchIndexerProcess(options);
  onTestFinished(indexer.stop);
  return indexer;
};
