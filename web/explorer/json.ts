// What the service answers to this page. docs/explorer-api.md has it in words.

/** What an answer is true at. */
export type Block = { number: number; timestamp: number; finalized: number };

/** Where on the chain something happened. */
export type Place = { blockNumber: number; blockTimestamp: number; transactionHash: string };

export type Delegation = {
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

export type ActiveDelegation = Delegation & { since: Place };

export type Change = Delegation &
  Place & {
    id: string;
    kind: "made" | "changed" | "revoked";
    direction: "in" | "out";
    event: string;
  };

export type DelegationPage = { wallet: string; block: Block; delegations: ActiveDelegation[]; next: string | null };

export type HistoryPage = { wallet: string; block: Block; changes: Change[]; next: string | null };

export type Explanation = {
  block: Block;
  answer: boolean | string;
  grants: (ActiveDelegation & { gives: string | null })[];
};

type BlockPoint = { number: number; timestamp: number };

export type Network = {
  chainId: number;
  name: string;
  testnet: boolean;
  blockExplorer: string | null;
  registries: { v1: string | null; v2: string | null };
  state: "fresh" | "behind" | "indexing" | "not-indexed" | "unreachable";
  reason: string | null;
  indexedBlock: BlockPoint | null;
  newestBlock: BlockPoint | null;
  progress: { startBlock: number; reachedBlock: number; newestBlock: number; share: number } | null;
};

export type Networks = { maxLagSeconds: number; networks: Network[] };
