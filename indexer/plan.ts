import type { Address } from "viem";

/** A registry on one chain, and the first block that can have one of its events. */
export type RegistryPlan = { address: Address; startBlock: number };

export type BlockRange = { first: number; last: number };

export type ChainPlan = {
  chainId: number;
  name: string;
  rpcUrls: string[];
  wsUrl: string | null;
  /** Those of rpcUrls that lack old logs. They are used for new blocks only. */
  recentOnlyUrls?: string[];
  /** The number of blocks in one request for logs. An endpoint that accepts fewer gets several requests. */
  logsRange?: number;
  /** Blocks whose logs are taken from their receipts too, as an answer to eth_getLogs has lacked some. */
  provenRanges?: BlockRange[];
  v1: RegistryPlan | null;
  v2: RegistryPlan | null;
};

/** The configuration of a Ponder process, complete before Ponder starts. */
export type IndexPlan = {
  chains: ChainPlan[];
  pollingIntervalMs: number;
};

/** The environment variable that passes the plan to the Ponder process. */
export const PLAN_VARIABLE = "INDEX_PLAN";
