// Written by `npm run openapi` from registry/checks.ts.

/** The parameters of each check besides the wallets, and its answer. */
export type Checks = {
  v1: {
    all: { takes: never; answer: boolean };
    contract: { takes: "contract"; answer: boolean };
    token: { takes: "contract" | "tokenId"; answer: boolean };
  };
  v2: {
    all: { takes: "rights"; answer: boolean };
    contract: { takes: "contract" | "rights"; answer: boolean };
    erc721: { takes: "contract" | "tokenId" | "rights"; answer: boolean };
    erc20: { takes: "contract" | "rights"; answer: bigint };
    erc1155: { takes: "contract" | "tokenId" | "rights"; answer: bigint };
  };
};

export const NAMES = {
  v1: ["all", "contract", "token"],
  v2: ["all", "contract", "erc721", "erc20", "erc1155"],
} as const;

/** Checks that return a balance. */
export const BALANCES: readonly string[] = ["erc20", "erc1155"];

/** The registries' own functions. */
export const FUNCTIONS: Record<keyof Checks, Record<string, string>> = {
  v1: { all: "checkDelegateForAll", contract: "checkDelegateForContract", token: "checkDelegateForToken" },
  v2: {
    all: "checkDelegateForAll",
    contract: "checkDelegateForContract",
    erc721: "checkDelegateForERC721",
    erc20: "checkDelegateForERC20",
    erc1155: "checkDelegateForERC1155",
  },
};

/** Types of the delegations that satisfy each check, the broadest first. */
export const SATISFIED_BY: Record<keyof Checks, Record<string, readonly string[]>> = {
  v1: { all: ["ALL"], contract: ["ALL", "CONTRACT"], token: ["ALL", "CONTRACT", "TOKEN"] },
  v2: {
    all: ["ALL"],
    contract: ["ALL", "CONTRACT"],
    erc721: ["ALL", "CONTRACT", "ERC721"],
    erc20: ["ALL", "CONTRACT", "ERC20"],
    erc1155: ["ALL", "CONTRACT", "ERC1155"],
  },
};
