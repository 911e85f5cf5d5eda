import { runIndexer } from "../indexer/run-indexer.ts";
import type { IndexerSettings } from "../indexer/settings.ts";
import type { Part } from "./stack.ts";

type Options = Omit<Parameters<typeof runIndexer>[1], "signal">;

/** Starts an indexer in this process, with Ponder as its child process. */
export const startLocalIndexer = (settings: IndexerSettings, options: Options): Part & { exited: Promise<void> } => {
  const stopping = new AbortController();
  const { signal } = stopping;
  const exited = runIndexer(settings, { ...options, signal }).catch((error) => {
    if (!signal.aborted) throw error;
  });
  return {
    exited,
    stop: async () => {
      stopping.abort();
      await exited.catch(() => {});
    },
  };
};
