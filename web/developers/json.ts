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

/** Describes a failure in one line, beside the control that caused it. */
export const describeFailure = (failure: FetchFailure): string => {
  if (failure.kind === "unreachable") return "The service cannot be reached. Try again when your connection is back.";
  return failure.detail || "Something went wrong. Try again.";
};

export const isSessionExpired = (failure: FetchFailure): boolean => failure.kind === "failed" && failure.status === 401;
