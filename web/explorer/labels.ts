import type { WalletChange, WalletDelegation } from "../../client/src/index.ts";
import { shortenHex } from "../shared/address.tsx";

export const KINDS: Record<WalletChange["kind"], string> = { made: "Made", changed: "Changed", revoked: "Revoked" };

export const scopeLabel = ({ type, tokenStandard }: Pick<WalletDelegation, "type" | "tokenStandard">): string => {
  if (type === "ALL") return "Whole wallet";
  if (type === "CONTRACT") return "Contract";
  if (tokenStandard === "ERC20") return "ERC-20 amount";
  return tokenStandard === "ERC1155" ? "ERC-1155 amount" : "Token";
};

/** Reads rights that are printable ASCII, padded with zeros. */
export const readRights = (rights: string): string | null => {
  const [, text] = /^0x((?:[2-6][0-9a-f]|7[0-9a-e])+)(?:00)*$/.exec(rights) ?? [];
  return text?.replace(/../g, (byte) => String.fromCharCode(Number.parseInt(byte, 16))) ?? null;
};

export const isFullRights = (rights: string): boolean => /^0x0*$/i.test(rights);

export const rightsLabel = ({ rights }: Pick<WalletDelegation, "rights">): string =>
  isFullRights(rights) ? "All rights" : `Right “${readRights(rights) ?? shortenHex(rights)}” only`;

/** Token ids are names, so they have no commas. */
export const tokenLabel = (id: string): string => `#${id.length <= 12 ? id : `${id.slice(0, 5)}…${id.slice(-4)}`}`;
