// Responses of the explorer's API: docs/explorer-api.md.

/** Block that an answer is true at. */
export type BlockJson = { number: number; timestamp: number; finalized: number };

/** Transaction of a change, with its block. */
export type TransactionJson = { blockNumber: number; blockTimestamp: number; transactionHash: string };

export type DelegationJson = {
  registry: "v1" | "v2";
  type: "ALL" | "CONTRACT" | "TOKEN";
  tokenStandard: "ERC721" | "ERC20" | "ERC1155" | null;
  from: string;
  to: string;
  contract: string | null;
  tokenId: string | null;
  rights: string | null;
  rightsText: string | null;
  amount: string | null;
};

export type ActiveDelegationJson = DelegationJson & { since: TransactionJson };

export type ChangeJson = DelegationJson &
  TransactionJson & {
    id: string;
    kind: "made" | "changed" | "revoked";
    direction: "in" | "out";
    event: string;
  };

export type DelegationPageJson = {
  wallet: string;
  block: BlockJson;
  delegations: ActiveDelegationJson[];
  next: string | null;
};

export type ChangePageJson = { wallet: string; block: BlockJson; changes: ChangeJson[]; next: string | null };

export type ExplanationJson = {
  block: BlockJson;
  answer: boolean | string;
  grants: (ActiveDelegationJson & { gives: string | null })[];
};

type BlockPointJson = { number: number; timestamp: number };

export type NetworkJson = {
  chainId: number;
  name: string;
  testnet: boolean;
  blockExplorer: string | null;
  registries: { v1: string | null; v2: string | null };
  state: "fresh" | "behind" | "indexing" | "not-indexed" | "unreachable";
  reason: string | null;
  indexedBlock: BlockPointJson | null;
  newestBlock: BlockPointJson | null;
  progress: { startBlock: number; reachedBlock: number; newestBlock: number; share: number } | null;
};

export type NetworksJson = { maxLagSeconds: number; networks: NetworkJson[] };
