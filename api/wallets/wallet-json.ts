import type { Address } from "viem";
import { hasAmount, hasTokenId, isToken } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import { checksumAddress, checksumContract } from "../delegations/checksum-address.ts";

// JSON of the questions about a wallet. Ids and amounts of any length are strings.

/** A delegation as stored, and its event. Zero means "not limited"; numbers are digits. */
export type DelegationRow = {
  chainId: number;
  registry: RegistryVersion;
  type: string;
  vault: Address;
  delegate: Address;
  contract: Address;
  tokenId: string;
  rights: string;
  amount: string;
  blockNumber: string;
  logIndex: number;
  blockTimestamp: string;
  transactionHash: string;
};

export type ChangeRow = DelegationRow & {
  ordinal: number;
  active: boolean;
  wasActive: boolean;
  event: string;
  number: string;
  /** False for a change of the other registry, which only tells how far its statement has read. */
  isListed: boolean;
};

/** Shows a delegation, and the event that made it. */
export const showDelegation = (row: DelegationRow) => {
  const { chainId, registry, type, rights, blockNumber, blockTimestamp, transactionHash } = row;
  return {
    chainId,
    registry,
    type: isToken(type) ? "TOKEN" : type,
    tokenStandard: registry === "v2" && isToken(type) ? type : null,
    vault: checksumAddress(row.vault),
    delegate: checksumAddress(row.delegate),
    contract: type === "ALL" ? null : checksumContract(row.contract),
    tokenId: hasTokenId(type) ? row.tokenId : null,
    rights,
    amount: hasAmount(type) ? row.amount : null,
    blockNumber: Number(blockNumber),
    blockTimestamp: Number(blockTimestamp),
    transactionHash,
  };
};

/** Shows a change of a delegation, and its event. */
export const showChange = (change: Omit<ChangeRow, "number" | "isListed">) => ({
  kind: !change.active ? "revoked" : change.wasActive ? "changed" : "made",
  event: change.event,
  ...showDelegation(change),
  logIndex: change.logIndex,
  ordinal: change.ordinal,
});

/** Shows a change from the wallet's side. */
export const showWalletChange = (change: ChangeRow, wallet: Address) => ({
  direction: change.delegate === wallet ? "incoming" : "outgoing",
  ...showChange(change),
});
