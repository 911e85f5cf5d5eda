import type { Proven } from "../../client/src/proof.ts";
import { amountLabel } from "../shared/labels.ts";
import { isFullRights, readRights } from "./labels.ts";

type Place = Proven["places"][number];

const SCOPES: Record<string, string> = {
  ALL: "the whole wallet",
  CONTRACT: "the contract",
  TOKEN: "the token",
  ERC721: "the ERC-721 token",
  ERC20: "the ERC-20 token",
  ERC1155: "the ERC-1155 token",
};

/** Tells in plain words what a word of a registry's storage says. */
export const describePlace = (
  { part, type = "", rights, word, isActive }: Place,
  { registry }: Pick<Proven["question"], "registry">,
): string => {
  if (part === "vaultVersion") return `How often the cold wallet has revoked all delegations: ${word}`;
  if (part === "delegateVersion") return `How often this pair of wallets has been revoked: ${word}`;
  const scope = SCOPES[type] ?? type;
  const right =
    rights === undefined ? "" : isFullRights(rights) ? ", full rights" : `, the right ${quoteRights(rights)}`;
  if (part === "amount") return `Amount of ${scope}${right}: ${amountLabel(word)}`;
  const isRevoked = registry === "v2" && word !== 0n;
  return `Delegation for ${scope}${right}: ${isActive ? "active" : isRevoked ? "revoked" : "none"}`;
};

const quoteRights = (rights: string): string => `“${readRights(rights) ?? rights}”`;
