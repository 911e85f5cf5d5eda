import type { ScopeOptions } from "../../client/src/index.ts";

export type RegistryName = "v1" | "v2";

type CheckName = NonNullable<ScopeOptions["check"]>;

/** One of the eight checks. */
export type CheckType = {
  type: CheckName;
  label: string;
  needs: readonly ("contract" | "tokenId")[];
  /** Narrowest scope that satisfies the check. */
  scope: "all" | "contract" | "token";
  /** True if the API names the two wallets delegate and vault, false if to and from. */
  hasDelegateNames: boolean;
  /** Names the subject of the check within a sentence. */
  describe: (contract: string, tokenId: string) => string;
};

const createWalletCheck = (hasDelegateNames: boolean): CheckType => ({
  type: "all",
  label: "Whole wallet",
  needs: [],
  scope: "all",
  hasDelegateNames,
  describe: () => "the whole wallet",
});

const createContractCheck = (hasDelegateNames: boolean): CheckType => ({
  type: "contract",
  label: "Contract",
  needs: ["contract"],
  scope: "contract",
  hasDelegateNames,
  describe: (contract) => `the contract ${contract}`,
});

const createTokenCheck = (type: CheckName, label: string): CheckType => ({
  type,
  label,
  needs: ["contract", "tokenId"],
  scope: "token",
  hasDelegateNames: true,
  describe: (contract, tokenId) => `token ${tokenId} of ${contract}`,
});

export const CHECK_TYPES: Record<RegistryName, readonly [CheckType, ...CheckType[]]> = {
  v2: [
    createWalletCheck(false),
    createContractCheck(false),
    createTokenCheck("erc721", "ERC-721 token"),
    createTokenCheck("erc1155", "ERC-1155 amount"),
    {
      ...createContractCheck(true),
      type: "erc20",
      label: "ERC-20 amount",
      scope: "token",
      describe: (contract) => `token ${contract}`,
    },
  ],
  v1: [createWalletCheck(true), createContractCheck(true), createTokenCheck("token", "Token")],
};

/** Finds a check by its type. Falls back to the first one, because the registries have different checks. */
export const findCheckType = (registry: RegistryName, type: string | null): CheckType =>
  CHECK_TYPES[registry].find((check) => check.type === type) ?? CHECK_TYPES[registry][0];

export const isAmountCheck = ({ type }: CheckType): boolean => type === "erc20" || type === "erc1155";
