import { createKeccak } from "hash-wasm";
import type { Address } from "viem";
import { BoundedMap } from "../../process/bounded.ts";

// viem's checksumAddress() takes 17 times as long and allocates much more: a list has thousands of addresses.

const keccak = await createKeccak(256);
const digits = Buffer.alloc(40);

/** Adds the EIP-55 checksum: a letter is upper-case where the address's hash has a high digit. */
export const checksumAddress = (address: Address): Address => {
  digits.write(address.slice(2).toLowerCase(), "latin1");
  const hash = keccak.init().update(digits).digest("binary");
  for (let index = 0; index < digits.length; index += 2) {
    const byte = hash[index >> 1] ?? 0;
    digits[index] = upperCaseIf(byte >> 7, digits[index] ?? 0);
    digits[index + 1] = upperCaseIf((byte >> 3) & 1, digits[index + 1] ?? 0);
  }
  return `0x${digits.toString("latin1")}`;
};

/**
 * ASCII letters have the bit 0x40, which digits do not, and in lower case 0x20. No branch: the processor would
 * mispredict half of them.
 */
const upperCaseIf = (isHigh: number, character: number): number => character & ~((character >> 1) & (isHigh << 5));

const contracts = new BoundedMap<Address, Address>(10_000);

/** Does the same for a contract, with a cache: many lists have the same contracts, but few the same wallets. */
export const checksumContract = (address: Address): Address => {
  const cached = contracts.get(address);
  if (cached !== undefined) return cached;
  const checksummed = checksumAddress(address);
  // The key is a string of its own: a slice of a row would keep the whole row in memory.
  contracts.set(checksummed.toLowerCase() as Address, checksummed);
  return checksummed;
};
