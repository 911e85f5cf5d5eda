// Responses of the insights page's API: docs/insights-api.md.

export type CountsJson = { made: number; changed: number; revoked: number; active: number };

export type DelegationTypeJson = "ALL" | "CONTRACT" | "TOKEN" | "ERC721" | "ERC20" | "ERC1155";

export type ActivityJson = { start: string; chainId: number; type: DelegationTypeJson; made: number; revoked: number };

export type ContractJson = { chainId: number; network: string; contract: string; delegations: number; made: number };

type NetworkCountsJson = { chainId: number; name: string } & CountsJson;

export type InsightsJson = {
  readAt: number;
  totals: CountsJson;
  networks: NetworkCountsJson[];
  days: ActivityJson[];
  weeks: ActivityJson[];
  contracts: ContractJson[];
};

export type NetworkStateJson = {
  chainId: number;
  name: string;
  blockExplorer: string | null;
  state: "fresh" | "behind" | "indexing" | "not-indexed" | "unreachable";
  reason: string | null;
  indexedBlock: { number: number; timestamp: number } | null;
  progress: { share: number } | null;
};

export type NetworkStatesJson = { networks: NetworkStateJson[] };
