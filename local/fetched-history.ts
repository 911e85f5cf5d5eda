import type { IndexerSettings } from "../indexer/settings.ts";

const TIMEOUT_MS = 1_000;

/** Blocks of a chain's history that Ponder has fetched, of those up to the final block. */
export type FetchedHistory = { fetched: number; total: number };

/**
 * Reads from Ponder's metrics how much history it has fetched, by the chain's name. Empty while Ponder does not answer.
 * Ponder's tables do not tell: a chain with few events is stored in one step at the end.
 */
export const readFetchedHistory = async ({ host, port }: IndexerSettings): Promise<Map<string, FetchedHistory>> => {
  const metrics = await fetch(`http://${host}:${port}/metrics`, { signal: AbortSignal.timeout(TIMEOUT_MS) }).then(
    (response) => response.text(),
    () => "",
  );
  return parseFetchedHistory(metrics);
};

export const parseFetchedHistory = (metrics: string): Map<string, FetchedHistory> => {
  const history = new Map<string, FetchedHistory>();
  for (const [, kind, chain = "", value] of metrics.matchAll(METRIC)) {
    const { fetched, total } = history.get(chain) ?? { fetched: 0, total: 0 };
    const blocks = Number(value);
    history.set(chain, kind === "total" ? { fetched, total: blocks } : { fetched: fetched + blocks, total });
  }
  return history;
};

/** History that was stored before is "cached". */
const METRIC = /^ponder_historical_(total|cached|completed)_blocks\{chain="([^"]*)"\} (\d+)$/gm;
