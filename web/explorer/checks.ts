export type RegistryName = "v1" | "v2";

/** One of the eight checks. */
export type Check = {
  type: string;
  label: string;
  needs: readonly ("contract" | "tokenId")[];
  /** The narrowest scope that it asks for. */
  breadth: "all" | "contract" | "token";
  /** As the interface names the wallets of this check: delegate and vault, or to and from. */
  isByDelegate: boolean;
  /** What it asks about, within a sentence. */
  describe: (contract: string, tokenId: string) => string;
};

const wholeWallet = (isByDelegate: boolean): Check => ({
  type: "all",
  label: "Whole wallet",
  needs: [],
  breadth: "all",
  isByDelegate,
  describe: () => "the whole wallet",
});

const contract = (isByDelegate: boolean): Check => ({
  type: "contract",
  label: "Contract",
  needs: ["contract"],
  breadth: "contract",
  isByDelegate,
  describe: (contract) => `the contract ${contract}`,
});

const token = (type: string, label: string): Check => ({
  type,
  label,
  needs: ["contract", "tokenId"],
  breadth: "token",
  isByDelegate: true,
  describe: (contract, tokenId) => `token ${tokenId} of ${contract}`,
});

export const CHECKS: Record<RegistryName, readonly [Check, ...Check[]]> = {
  v2: [
    wholeWallet(false),
    contract(false),
    token("erc721", "ERC-721 token"),
    token("erc1155", "ERC-1155 amount"),
    {
      ...contract(true),
      type: "erc20",
      label: "ERC-20 amount",
      breadth: "token",
      describe: (contract) => `token ${contract}`,
    },
  ],
  v1: [wholeWallet(true), contract(true), token("token", "Token")],
};

/** The check of this name, or the first: registries do not have the same. */
export const checkOf = (registry: RegistryName, type: string | null): Check =>
  CHECKS[registry].find((check) => check.type === type) ?? CHECKS[registry][0];

export const takes = ({ needs }: Check, parameter: "contract" | "tokenId"): boolean => needs.includes(parameter);

/** Whether the answer is an amount. */
export const isBalance = ({ type }: Check): boolean => type === "erc20" || type === "erc1155";
