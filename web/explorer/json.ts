// Responses of the API: docs/api.md, "Wallets".

/** Block that an answer is true at. With a time, the last one up to it that changed a delegation. */
export type BlockJson = { number: number | null; timestamp: number | null; final: boolean };

/** Transaction of a change, with its block. */
export type TransactionJson = { blockNumber: number; blockTimestamp: number; transactionHash: string };

export type DelegationJson = TransactionJson & {
  chainId: number;
  registry: "v1" | "v2";
  type: "ALL" | "CONTRACT" | "TOKEN";
  tokenStandard: "ERC721" | "ERC20" | "ERC1155" | null;
  vault: string;
  delegate: string;
  contract: string | null;
  tokenId: string | null;
  rights: string;
  amount: string | null;
};

export type ChangeJson = DelegationJson & {
  kind: "made" | "changed" | "revoked";
  direction: "incoming" | "outgoing";
  event: string;
  logIndex: number;
  ordinal: number;
};

/** A change on any network. */
export type NewestChangeJson = Omit<ChangeJson, "direction"> & { network: string };

export type NewestChangesJson = { newest: NewestChangeJson[] };

/** A page of a list about one network or several. */
export type PageJson = {
  blocks: Record<string, BlockJson>;
  unanswered: { chainId: number | null; problem: { detail: string } }[];
  next: string | null;
};

/** A wallet at the other end, with the delegations that grant what was asked for. */
type GrantedJson = { chainId: number; amount: string | null; delegations: DelegationJson[] };

export type DelegationPageJson = PageJson & { delegations: DelegationJson[] };
export type VaultPageJson = PageJson & { vaults: GrantedJson[] };
export type DelegatePageJson = PageJson & { delegates: GrantedJson[] };
export type ChangePageJson = PageJson & { changes: ChangeJson[] };

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
