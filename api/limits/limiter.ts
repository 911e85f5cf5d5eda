import type { Logger } from "pino";
import type { SharedWindow } from "./shared-window.ts";
import { type Decision, type Limit, SlidingWindow } from "./sliding-window.ts";

const RELEASE_MS = 1_000;
/** Requests to pages, documents and health: a page loads some ten files. More if the limit itself is higher. */
const PAGE_LIMIT = { requests: 500, windowMs: 10_000 };

export type Limiter = {
  limit: Limit;
  /** Admits or rejects requests: see SlidingWindow. */
  take: (client: string, count?: number, retried?: number) => Decision | Promise<Decision>;
  /** The limit of requests that ask no question, in this process alone. */
  pageLimit: Limit;
  takePage: (client: string) => Decision;
  /** Counts the clients that this process remembers. */
  countClients: () => number;
  /** True while all processes share one limit; null without a store. */
  isShared: () => boolean | null;
  close: () => void;
};

/** Starts a rate limiter per client: for this process, or shared with others through a store. */
export const startLimiter = async (
  limit: Limit,
  storeUrl: string | null,
  log: Logger,
  now?: () => number,
): Promise<Limiter> => {
  const local = new SlidingWindow(limit, now);
  const shared = storeUrl === null ? null : await connectShared(storeUrl, limit, local, log);
  const pageLimit = { ...PAGE_LIMIT, requests: Math.max(PAGE_LIMIT.requests, limit.requests) };
  const pages = new SlidingWindow(pageLimit, now);
  const release = () => {
    local.release();
    pages.release();
  };
  const timer = setInterval(release, RELEASE_MS).unref();
  return {
    limit,
    pageLimit,
    takePage: (client) => pages.take(client),
    take: (client, count, retried) => (shared ?? local).take(client, count, retried),
    countClients: () => local.size,
    isShared: () => shared?.isShared ?? null,
    close: () => {
      clearInterval(timer);
      shared?.close();
    },
  };
};

/** Imports Redis' client on demand: loading it takes half a second of processor time, and most setups have no store. */
const connectShared = async (...parameters: Parameters<typeof SharedWindow.connect>): Promise<SharedWindow> => {
  const { SharedWindow } = await import("./shared-window.ts");
  return SharedWindow.connect(...parameters);
};
