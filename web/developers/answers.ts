import type { Failure } from "../shared/ask.ts";

// What the service answers this page with.

export type Session = {
  address: string;
  /** Of a contract wallet, which is an account on that network alone. */
  network: string | null;
  expiresAt: string;
};

/** `origin`: where people sign in; null where nobody can. */
export type SessionAnswer = { origin: string | null; session: Session | null };

export type Key = {
  name: string;
  prefix: string;
  createdAt: string;
  revokedAt: string | null;
  lastUsedAt: string | null;
  requests: number;
  days: readonly { day: string; requests: number }[];
};

export type NewKey = Key & { key: string };

export type KeysAnswer = { keysPerWallet: number; usageDays: number; keys: readonly Key[] };

/** In a line, beside what somebody wanted to do. */
export const describeFailure = (failure: Failure): string => {
  if (failure.kind === "unreachable") return "The service cannot be reached. Try again when your connection is back.";
  return failure.detail || "Something went wrong. Try again.";
};

export const isSessionOver = (failure: Failure): boolean => failure.kind === "failed" && failure.status === 401;
