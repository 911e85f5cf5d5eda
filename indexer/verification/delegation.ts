import type { Address, Hex } from "viem";
import type { DelegationTypeV1, DelegationTypeV2 } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";

/** Identifies a delegation, in the index and on the chain. Lower-case; a missing part is zero. */
export type DelegationKey = {
  registry: RegistryVersion;
  type: DelegationTypeV1 | DelegationTypeV2;
  vault: Address;
  delegate: Address;
  contract: Address;
  tokenId: bigint;
  rights: Hex;
};

/** The amount is zero for types that have none. */
export type Delegation = DelegationKey & { amount: bigint };

/** A wallet's two lists: delegations to it, and delegations by it. */
export type Side = "incoming" | "outgoing";

export const lowerCase = (address: Address): Address => `0x${address.slice(2).toLowerCase()}`;

export const describeDelegation = ({ registry, type, vault, delegate, contract, tokenId, rights }: DelegationKey) =>
  [
    `${registry} ${type} vault ${vault} delegate ${delegate}`,
    type !== "ALL" && `contract ${contract}`,
    ["TOKEN", "ERC721", "ERC1155"].includes(type) && `token ${tokenId}`,
    registry === "v2" && `rights ${rights}`,
  ]
    .filter((part) => part !== false)
    .join(" ");
