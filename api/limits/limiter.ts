import type { Logger } from "pino";
import type { SharedWindow } from "./shared-window.ts";
import { type Decision, type Limit, SlidingWindow } from "./sliding-window.ts";

const RELEASE_MS = 1_000;

export type Limiter = {
  limit: Limit;
  take: (client: string) => Decision | Promise<Decision>;
  /** How many clients this process remembers. */
  countClients: () => number;
  /** Whether all processes limit together at the moment; null where they are not meant to. */
  isShared: () => boolean | null;
  close: () => void;
};

/** Limits requests by client: in this process alone, or together with others through a store. */
export const startLimiter = async (
  limit: Limit,
  storeUrl: string | null,
  log: Logger,
  now?: () => number,
): Promise<Limiter> => {
  const own = new SlidingWindow(limit, now);
  const shared = storeUrl === null ? null : await connectShared(storeUrl, limit, own, log);
  const timer = setInterval(() => own.release(), RELEASE_MS).unref();
  return {
    limit,
    take: (client) => (shared ?? own).take(client),
    countClients: () => own.size,
    isShared: () => shared?.isShared ?? null,
    close: () => {
      clearInterval(timer);
      shared?.close();
    },
  };
};

/** Redis' client takes half a second of processor time to load, which most have no use for. */
const connectShared = async (...store: Parameters<typeof SharedWindow.connect>): Promise<SharedWindow> => {
  const { SharedWindow } = await import("./shared-window.ts");
  return SharedWindow.connect(...store);
};
