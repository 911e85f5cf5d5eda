import { shorten } from "../shared/address.tsx";
import type { Delegation } from "./json.ts";

// Delegations in plain words.

const MAX_UINT256 = 2n ** 256n - 1n;

export const scopeLabel = ({ type, tokenStandard }: Delegation): string => {
  if (type === "ALL") return "Whole wallet";
  if (type === "CONTRACT") return "Contract";
  if (tokenStandard === "ERC20") return "ERC-20 amount";
  return tokenStandard === "ERC1155" ? "ERC-1155 amount" : "Token";
};

export const rightsLabel = ({ rights, rightsText }: Delegation): string => {
  if (rights === null) return "All rights";
  return `Right “${rightsText ?? shorten(rights)}” only`;
};

/** Exact, with commas; the largest there is, by its name. */
export const amountLabel = (digits: string): string =>
  BigInt(digits) === MAX_UINT256 ? "Unlimited" : BigInt(digits).toLocaleString("en");

/** Ids are names, not numbers: no commas. */
export const tokenLabel = (id: string): string => `#${id.length <= 12 ? id : `${id.slice(0, 5)}…${id.slice(-4)}`}`;

export const countLabel = (count: number, one: string, many: string): string =>
  `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
