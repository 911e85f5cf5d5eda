import type { Address } from "viem";
import { checksumAddress } from "../delegations/checksum-address.ts";
import { Problem } from "../problem.ts";

/**
 * A signed-in account. A key pair is the same account on every chain. A contract is an account on its own chain only:
 * its address on another chain may belong to someone else.
 */
export type Account = { address: Address; chainId: number | null };

/** Formats an account for storage: the address, or eip155:<chainId>:<address>, in lower case. */
export const formatOwner = ({ address, chainId }: Account): string =>
  `${chainId === null ? "" : `eip155:${chainId}:`}${address.toLowerCase()}`;

export const parseOwner = (owner: string): Account => {
  const [address = "", chainId] = owner.split(":").reverse();
  return { address: checksumAddress(address as Address), chainId: chainId === undefined ? null : Number(chainId) };
};

export const accountBlocked = (what: string) =>
  new Problem("account-blocked", `The operator has blocked this account: it cannot create ${what}. Ask the operator.`);
