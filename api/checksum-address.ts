import { createKeccak } from "hash-wasm";
import type { Address } from "viem";

// viem's own takes 17 times as long and leaves a trail of garbage: a list has thousands of addresses.

const keccak = await createKeccak(256);
const digits = Buffer.alloc(40);

/** An address with its EIP-55 checksum: a letter is upper-case where the hash of the whole has a high digit. */
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

/** ASCII's letters have the bit 0x40, which its digits have not, and in lower case 0x20. Without a branch: half of them would be guessed wrong. */
const upperCaseIf = (isHigh: number, character: number): number => character & ~((character >> 1) & (isHigh << 5));

/** Up to twice as many are remembered. */
const REMEMBERED = 5_000;
let recent = new Map<Address, Address>();
let older = new Map<Address, Address>();

/** The same for a contract, which is remembered: many lists name the same ones, while few name the same wallets. */
export const checksumContract = (address: Address): Address => {
  const known = recent.get(address);
  if (known !== undefined) return known;
  const checksummed = older.get(address) ?? checksumAddress(address);
  if (recent.size >= REMEMBERED) {
    older = recent;
    recent = new Map();
  }
  // Under a text of its own: a part of a row would keep all of it in memory.
  recent.set(checksummed.toLowerCase() as Address, checksummed);
  return checksummed;
};
