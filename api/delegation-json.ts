import type { Address } from "viem";
import type { RegistryVersion } from "../registry/networks.ts";
import { checksumAddress } from "./checksum-address.ts";
import type { ListedDelegation } from "./queries/list-delegations.ts";

export type Rendering = {
  version: RegistryVersion;
  chainId: number;
  wallet: Address;
  numbers: "number" | "string";
};

/** A delegation as JSON, written by hand: numbers of any length, as they are. */
export const renderDelegation = (delegation: ListedDelegation, rendering: Rendering): string => {
  const { version, chainId, wallet, numbers } = rendering;
  const { type, other, contract, tokenId, position, details } = delegation;
  const number = (digits: string) => (numbers === "string" ? `"${digits}"` : digits);

  const isIncoming = position.direction === "incoming";
  const vault = checksumAddress(isIncoming ? other : wallet);
  const delegate = checksumAddress(isIncoming ? wallet : other);
  const hasContract = type !== "ALL";
  const isToken = hasContract && type !== "CONTRACT";
  const hasTokenId = isToken && type !== "ERC20";
  const isBalance = type === "ERC20" || type === "ERC1155";

  const fields = [
    `"type":"${isToken ? "TOKEN" : type}"`,
    version === "v1" ? `"delegate":"${delegate}","vault":"${vault}"` : `"from":"${vault}","to":"${delegate}"`,
    `"contract":${hasContract ? `"${checksumAddress(contract)}"` : "null"}`,
    `"tokenId":${hasTokenId ? number(tokenId) : "null"}`,
  ];
  if (details) {
    fields.push(`"direction":"${position.direction}"`, `"chainId":${chainId}`);
    if (version === "v2") {
      const amount = isBalance ? number(details.amount) : "null";
      fields.push(
        `"rights":"${details.rights}"`,
        `"amount":${amount}`,
        `"tokenStandard":${isToken ? `"${type}"` : "null"}`,
      );
    }
    fields.push(
      `"blockNumber":${position.blockNumber}`,
      `"blockTimestamp":${details.blockTimestamp}`,
      `"transactionHash":"${details.transactionHash}"`,
    );
  }
  return `{${fields.join(",")}}`;
};
