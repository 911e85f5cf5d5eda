import type { Address } from "viem";
import { hasAmount, hasTokenId, isToken } from "../registry/delegation.ts";
import type { RegistryVersion } from "../registry/networks.ts";
import { checksumAddress, checksumContract } from "./checksum-address.ts";
import type { ListedDelegation } from "./queries/list-delegations.ts";

export type Rendering = {
  version: RegistryVersion;
  chainId: number;
  wallet: Address;
  numbers: "number" | "string";
};

/** Writes delegations of a wallet as JSON, by hand: numbers of any length, as they are. */
export const renderDelegations = (delegations: readonly ListedDelegation[], rendering: Rendering): string => {
  const own = checksumAddress(rendering.wallet);
  let json = "";
  for (const delegation of delegations) {
    json += `${json && ","}{${renderFields(delegation, own, rendering)}${renderDetails(delegation, rendering)}}`;
  }
  return json;
};

const hasContract = (type: string) => type !== "ALL";

const renderNumber = (digits: string, { numbers }: Rendering) => (numbers === "string" ? `"${digits}"` : digits);

const renderFields = (delegation: ListedDelegation, own: Address, rendering: Rendering): string => {
  const { direction, type, contract, tokenId } = delegation;
  const other = checksumAddress(delegation.other);
  const [vault, delegate] = direction === "incoming" ? [other, own] : [own, other];
  const wallets =
    rendering.version === "v1" ? `"delegate":"${delegate}","vault":"${vault}"` : `"from":"${vault}","to":"${delegate}"`;
  const shownContract = hasContract(type) ? `"${checksumContract(contract)}"` : "null";
  const shownTokenId = hasTokenId(type) ? renderNumber(tokenId, rendering) : "null";
  return `"type":"${isToken(type) ? "TOKEN" : type}",${wallets},"contract":${shownContract},"tokenId":${shownTokenId}`;
};

const renderDetails = ({ direction, type, blockNumber, details }: ListedDelegation, rendering: Rendering): string => {
  if (details === null) return "";
  const { rights, amount, blockTimestamp, transactionHash } = details;
  const shownAmount = hasAmount(type) ? renderNumber(amount, rendering) : "null";
  const standard = isToken(type) ? `"${type}"` : "null";
  const ofV2 =
    rendering.version === "v2" ? `,"rights":"${rights}","amount":${shownAmount},"tokenStandard":${standard}` : "";
  return `,"direction":"${direction}","chainId":${rendering.chainId}${ofV2},"blockNumber":${blockNumber},"blockTimestamp":${blockTimestamp},"transactionHash":"${transactionHash}"`;
};
