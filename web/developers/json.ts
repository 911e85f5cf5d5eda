import type { FetchFailure } from "../shared/fetch-json.ts";

// Responses of the developer page's API.

export type SessionJson = {
  address: string;
  /** The network of a contract wallet, which is an account on that network only. */
  network: string | null;
  expiresAt: string;
};

/** `origin`: where users sign in; null if nobody can. */
export type SessionAnswerJson = { origin: string | null; session: SessionJson | null; hasWebhooks?: true };

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

export type WebhookJson = {
  id: string;
  url: string;
  /** Empty for all networks. */
  chainId: readonly number[];
  registry: string;
  wallet?: string;
  vault?: string;
  delegate?: string;
  contract?: string;
  type?: string;
  finality: "final" | "latest";
  createdAt: string;
  failingSince: string | null;
  nextAttemptAt: string | null;
  pausedAt: string | null;
  /** Why the service has paused it; null if its owner did. */
  pausedReason: string | null;
  lastDeliveredAt: string | null;
};

export type NewWebhookJson = WebhookJson & { secret: string };

export type WebhookListJson = { isBlocked: boolean; webhooksPerWallet: number; webhooks: readonly WebhookJson[] };

export type DeliveryJson = {
  messageId: string;
  type: string;
  body: string;
  askedAt: string | null;
  attempts: number;
  sentAt: string | null;
  status: number | null;
  error: string | null;
  answer: string | null;
  milliseconds: number | null;
  deliveredAt: string | null;
  createdAt: string;
};

export type DeliveryListJson = { deliveries: readonly DeliveryJson[] };

export const isSessionExpired = (failure: FetchFailure): boolean => failure.kind === "failed" && failure.status === 401;
