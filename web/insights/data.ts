// What the service tells: docs/explorer-api.md.

export type Counts = { made: number; changed: number; revoked: number; active: number };

export type DelegationType = "ALL" | "CONTRACT" | "TOKEN" | "ERC721" | "ERC20" | "ERC1155";

export type Activity = { start: string; chainId: number; type: DelegationType; made: number; revoked: number };

export type Contract = { chainId: number; network: string; contract: string; delegations: number; made: number };

type NetworkCounts = { chainId: number; name: string } & Counts;

export type InsightsData = {
  readAt: number;
  totals: Counts;
  networks: NetworkCounts[];
  days: Activity[];
  weeks: Activity[];
  contracts: Contract[];
};

export type NetworkState = {
  chainId: number;
  name: string;
  blockExplorer: string | null;
  state: "fresh" | "behind" | "indexing" | "not-indexed" | "unreachable";
  reason: string | null;
  indexedBlock: { number: number; timestamp: number } | null;
  progress: { share: number } | null;
};

export type NetworksData = { networks: NetworkState[] };
