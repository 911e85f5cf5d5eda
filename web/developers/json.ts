import type { FetchFailure } from "../shared/fetch-json.ts";

// Responses of the developer page's API.

export type SessionJson = {
  address: string;
  /** The network of a contract wallet, which is an account on that network only. */
  network: string | null;
  expiresAt: string;
};

/** `origin`: where users sign in; null if nobody can. */
export type SessionAnswerJson = { origin: string | null; session: SessionJson | null };

export type ListedKeyJson = {
  name: string;
  prefix: string;
  createdAt: string;
  revokedAt: string | null;
  lastUsedAt: string | null;
  requests: number;
  days: readonly { day: string; requests: number }[];
};

export type NewKeyJson = ListedKeyJson & { key: string };

export type KeyListJson = {
  /** The operator refuses the account's keys. */
  isBlocked: boolean;
  keysPerWallet: number;
  usageDays: number;
  keys: readonly ListedKeyJson[];
};

export const isSessionExpired = (failure: FetchFailure): boolean => failure.kind === "failed" && failure.status === 401;
