import type { Address } from "viem";
import { checksumAddress } from "../checksum-address.ts";

/**
 * Who is signed in. A key pair is the same account on every chain; a contract is one on its own chain only: whoever
 * has its address on another chain may be somebody else.
 */
export type Account = { address: Address; chainId: number | null };

/** As it is stored: the address, or eip155:<chainId>:<address>, in lower case. */
export const ownerOf = ({ address, chainId }: Account): string =>
  `${chainId === null ? "" : `eip155:${chainId}:`}${address.toLowerCase()}`;

export const accountOf = (owner: string): Account => {
  const [address = "", chainId] = owner.split(":").reverse();
  return { address: checksumAddress(address as Address), chainId: chainId === undefined ? null : Number(chainId) };
};
