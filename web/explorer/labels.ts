import { shortenHex } from "../shared/address.tsx";
import type { DelegationJson } from "./json.ts";

const MAX_UINT256 = 2n ** 256n - 1n;

export const scopeLabel = ({ type, tokenStandard }: DelegationJson): string => {
  if (type === "ALL") return "Whole wallet";
  if (type === "CONTRACT") return "Contract";
  if (tokenStandard === "ERC20") return "ERC-20 amount";
  return tokenStandard === "ERC1155" ? "ERC-1155 amount" : "Token";
};

export const rightsLabel = ({ rights, rightsText }: DelegationJson): string => {
  if (rights === null) return "All rights";
  return `Right “${rightsText ?? shortenHex(rights)}” only`;
};

/** The exact amount with commas. The largest uint256 means "unlimited". */
export const amountLabel = (digits: string): string =>
  BigInt(digits) === MAX_UINT256 ? "Unlimited" : BigInt(digits).toLocaleString("en");

/** Token ids are names, so they have no commas. */
export const tokenLabel = (id: string): string => `#${id.length <= 12 ? id : `${id.slice(0, 5)}…${id.slice(-4)}`}`;

export const countLabel = (count: number, singular: string, plural: string): string =>
  `${count.toLocaleString("en")} ${count === 1 ? singular : plural}`;
