import type { Address } from "viem";
import { hasAmount, hasTokenId, isToken } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import { checksumAddress, checksumContract } from "./checksum-address.ts";
import { INCOMING, type ListRow } from "./list-directions.ts";

export type Rendering = {
  version: RegistryVersion;
  chainId: number;
  wallet: Address;
  numbers: "number" | "string";
};

/** Creates a function that renders a delegation of a wallet. Not JSON.stringify(): digits of any length become numbers. */
export const createRenderer = (rendering: Rendering): ((row: ListRow) => string) => {
  const wallet = checksumAddress(rendering.wallet);
  return (row) => `{${renderFields(row, wallet, rendering)}${renderDetails(row, rendering)}}`;
};

const hasContract = (type: string) => type !== "ALL";

const renderNumber = (digits: string, { numbers }: Rendering) => (numbers === "string" ? `"${digits}"` : digits);

const renderFields = (row: ListRow, wallet: Address, rendering: Rendering): string => {
  const { direction, type, contract, tokenId } = row;
  const other = checksumAddress(row.other);
  const [vault, delegate] = direction === INCOMING ? [other, wallet] : [wallet, other];
  const wallets =
    rendering.version === "v1" ? `"delegate":"${delegate}","vault":"${vault}"` : `"from":"${vault}","to":"${delegate}"`;
  const contractJson = hasContract(type) ? `"${checksumContract(contract)}"` : "null";
  const tokenIdJson = hasTokenId(type) ? renderNumber(tokenId, rendering) : "null";
  return `"type":"${isToken(type) ? "TOKEN" : type}",${wallets},"contract":${contractJson},"tokenId":${tokenIdJson}`;
};

const renderDetails = (row: ListRow, rendering: Rendering): string => {
  const { direction, type, rights, amount = "0", blockNumber, blockTimestamp, transactionHash } = row;
  if (transactionHash === undefined) return "";
  const amountJson = hasAmount(type) ? renderNumber(amount, rendering) : "null";
  const standard = isToken(type) ? `"${type}"` : "null";
  const v2Details =
    rendering.version === "v2" ? `,"rights":"${rights}","amount":${amountJson},"tokenStandard":${standard}` : "";
  return `,"direction":"${direction === INCOMING ? "incoming" : "outgoing"}","chainId":${rendering.chainId}${v2Details},"blockNumber":${blockNumber},"blockTimestamp":${blockTimestamp},"transactionHash":"${transactionHash}"`;
};
