import type { Address } from "viem";

/** A registry on one chain: where it is, and the first block that can hold an event of it. */
export type RegistryPlan = { address: Address; startBlock: number };

export type ChainPlan = {
  chainId: number;
  name: string;
  rpcUrls: string[];
  wsUrl: string | null;
  v1: RegistryPlan | null;
  v2: RegistryPlan | null;
};

/** All that an indexer needs to know, decided before Ponder starts. */
export type IndexPlan = {
  chains: ChainPlan[];
  pollingIntervalMs: number;
};

/** The plan travels to the Ponder process in this variable. */
export const PLAN_VARIABLE = "INDEX_PLAN";
