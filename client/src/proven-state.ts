import { fromRlp, keccak256, pad } from "viem";
import { readMerkleProof } from "./merkle-proof.ts";
import type { Address, Hex } from "./questions.ts";

// Reads a registry's state from proofs: each step is held against the hash that the one before it has proven.

export type Header = { number: bigint; timestamp: bigint; stateRoot: Hex };

/** Reads what proofs need of a block's header. The fields after these differ between networks. */
export const readHeader = (header: Hex, hash: Hex): Header => {
  if (keccak256(header) !== hash) throw new Error("The header is not that of the trusted block.");
  const fields = fromRlp(header, "hex");
  if (typeof fields === "string") throw new Error("The header is no list.");
  return { number: readInteger(fields[8]), timestamp: readInteger(fields[11]), stateRoot: readHash(fields[3]) };
};

/** The block is older than its registry: nothing about it is proven, not even `false`. */
export class NoRegistryError extends Error {}

/** The state, as proven, has a form that this code does not know: nothing can be proven by it. */
export class UnknownFormError extends Error {}

/** The hash of no code. */
const NO_CODE = "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";

/** Reads the root of a registry's storage from the proof of its account. */
export const readStorageRoot = (stateRoot: Hex, registry: Address, proof: readonly string[]): Hex => {
  const account = readMerkleProof(stateRoot, registry, proof.map(readHex));
  const fields = account === null ? [] : fromRlp(account, "hex");
  if (account === null || fields[3] === NO_CODE) throw new NoRegistryError("There is no registry at this block.");
  if (typeof fields === "string" || fields.length !== 4) {
    throw new UnknownFormError("The accounts of this network have another form than Ethereum's.");
  }
  return readHash(fields[2]);
};

/** Reads a word of a registry's storage from its proof; 0 if the slot is empty. */
export const readSlot = (storageRoot: Hex, slot: Hex, proof: readonly string[]): bigint => {
  const value = readMerkleProof(storageRoot, slot, proof.map(readHex));
  return value === null ? 0n : BigInt(pad(readHex(fromRlp(value, "hex"))));
};

/** Reads a number of a header, which has no leading zeros: 0 is no byte at all. */
const readInteger = (field: unknown): bigint => (field === "0x" ? 0n : BigInt(readHex(field)));

/** Only of a text: a list with one text would be one as soon as it is converted. */
export const readHex = (text: unknown): Hex => {
  const hex = typeof text === "string" ? text.toLowerCase() : "";
  if (!/^0x([0-9a-f]{2})+$/.test(hex)) throw new Error(`${JSON.stringify(text)?.slice(0, 80)} is not in hex digits.`);
  return hex as Hex;
};

export const readHash = (text: unknown): Hex => {
  const hex = readHex(text);
  if (hex.length !== 66) throw new Error(`${hex.slice(0, 80)} does not have 32 bytes.`);
  return hex;
};
