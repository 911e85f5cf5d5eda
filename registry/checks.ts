import type { DelegationTypeV1, DelegationTypeV2 } from "./delegation.ts";
import type { RegistryVersion } from "./networks.ts";

/** Parameters that a check may take besides the two wallets. */
type CheckParameter = "contract" | "tokenId" | "rights";

type Row<Name> = {
  version: RegistryVersion;
  name: Name;
  /** Path of its operation. */
  path: string;
  /** Names of the hot and the cold wallet in its operation. v2 takes the other pair as synonyms. */
  wallets: readonly ["delegate", "vault"] | readonly ["to", "from"];
  /** Its other parameters, in the order of the registry's function. Only rights are optional. */
  takes: readonly CheckParameter[];
  /** Types of the delegations that satisfy it, the broadest first. */
  satisfiedBy: readonly (DelegationTypeV1 | DelegationTypeV2)[];
  returns: "boolean" | "balance";
  /** The registry's function that answers it. */
  contractFunction: string;
  /** Its name on the pages. */
  label: string;
  /** Its description in the OpenAPI document and in the database. */
  meaning: string;
};

const OF_WALLET = {
  name: "all",
  satisfiedBy: ["ALL"],
  returns: "boolean",
  contractFunction: "checkDelegateForAll",
  label: "Whole wallet",
  meaning: "True if the delegate may act for the whole vault.",
} as const;

const OF_CONTRACT = {
  name: "contract",
  satisfiedBy: ["ALL", "CONTRACT"],
  returns: "boolean",
  contractFunction: "checkDelegateForContract",
  label: "Contract",
  meaning:
    "True if the delegate may act for the vault with a contract: by a delegation for it, or for the whole vault.",
} as const;

const ROWS = [
  { version: "v1", path: "/registry/v1/check/all", wallets: ["delegate", "vault"], takes: [], ...OF_WALLET },
  {
    version: "v1",
    path: "/registry/v1/check/contract",
    wallets: ["delegate", "vault"],
    takes: ["contract"],
    ...OF_CONTRACT,
  },
  {
    version: "v1",
    name: "token",
    path: "/registry/v1/check/token",
    wallets: ["delegate", "vault"],
    takes: ["contract", "tokenId"],
    satisfiedBy: ["ALL", "CONTRACT", "TOKEN"],
    returns: "boolean",
    contractFunction: "checkDelegateForToken",
    label: "Token",
    meaning:
      "True if the delegate may act for the vault with a token: by a delegation for it, for its contract, or for the whole vault.",
  },
  { version: "v2", path: "/registry/v2/check/all", wallets: ["to", "from"], takes: ["rights"], ...OF_WALLET },
  {
    version: "v2",
    path: "/registry/v2/check/contract",
    wallets: ["to", "from"],
    takes: ["contract", "rights"],
    ...OF_CONTRACT,
  },
  {
    version: "v2",
    name: "erc721",
    path: "/registry/v2/check/erc721",
    wallets: ["delegate", "vault"],
    takes: ["contract", "tokenId", "rights"],
    satisfiedBy: ["ALL", "CONTRACT", "ERC721"],
    returns: "boolean",
    contractFunction: "checkDelegateForERC721",
    label: "ERC-721 token",
    meaning:
      "True if the delegate may act for the vault with an ERC721 token: by a delegation for it, for its contract, or for the whole vault.",
  },
  {
    version: "v2",
    name: "erc20",
    path: "/registry/v2/check/erc20",
    wallets: ["delegate", "vault"],
    takes: ["contract", "rights"],
    satisfiedBy: ["ALL", "CONTRACT", "ERC20"],
    returns: "balance",
    contractFunction: "checkDelegateForERC20",
    label: "ERC-20 amount",
    meaning:
      "The balance of an ERC20 contract that the vault has delegated: 0 without a delegation, 2^256-1 under one for the contract or the whole vault.",
  },
  {
    version: "v2",
    name: "erc1155",
    path: "/registry/v2/check/erc1155",
    wallets: ["delegate", "vault"],
    takes: ["contract", "tokenId", "rights"],
    satisfiedBy: ["ALL", "CONTRACT", "ERC1155"],
    returns: "balance",
    contractFunction: "checkDelegateForERC1155",
    label: "ERC-1155 amount",
    meaning:
      "The balance of an ERC1155 token that the vault has delegated: 0 without a delegation, 2^256-1 under one for the contract or the whole vault.",
  },
] as const satisfies readonly Row<string>[];

export type CheckName = (typeof ROWS)[number]["name"];

/** A check of one registry. */
export type Check = Row<CheckName>;

/**
 * The checks of both registries. The rule in SQL, the API's routes and bulk checks, the functions for data teams, the
 * client, the pages, the audit and the benchmark derive from this table. v1 comes before v2: statements name the tables in
 * the order in which a reorg locks them.
 */
export const CHECKS: readonly Check[] = ROWS;

export const checksOf = (version: RegistryVersion): readonly Check[] =>
  CHECKS.filter((check) => check.version === version);

export const findCheck = (version: string, name: string): Check | undefined =>
  CHECKS.find((check) => check.version === version && check.name === name);

/** The names of both registries' checks. */
export const CHECK_NAMES: readonly CheckName[] = [...new Set(CHECKS.map(({ name }) => name))];

export const takes = (check: Check, parameter: CheckParameter): boolean => check.takes.includes(parameter);

/** True if the check of this name takes a parameter, in any registry. */
export const takesByName = (name: CheckName, parameter: CheckParameter): boolean =>
  CHECKS.some((check) => check.name === name && takes(check, parameter));

/** True for a check, of any registry, that returns a balance. */
export const isBalanceCheck = (name: CheckName): boolean =>
  CHECKS.some((check) => check.name === name && check.returns === "balance");
