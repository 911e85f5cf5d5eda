import { fromRlp, keccak256, pad } from "viem";
import { readMerkleProof } from "./merkle-proof.ts";
import type { Address, Hex } from "./questions.ts";

// Reads a registry's state from proofs: each step is held against the hash that the one before it has proven.

/** Reads the number and the state's root from a block's header. The fields after them differ between networks. */
export const readHeader = (header: Hex, hash: Hex): { number: bigint; stateRoot: Hex } => {
  if (keccak256(header) !== hash) throw new Error("The header is not that of the trusted block.");
  const fields = fromRlp(header, "hex");
  const [stateRoot, number] = typeof fields === "string" ? [] : [fields[3], fields[8]];
  if (typeof number !== "string") throw new Error("The header has no block number.");
  return { number: BigInt(number === "0x" ? 0 : number), stateRoot: readHash(stateRoot) };
};

/** The block is older than its registry: nothing about it is proven, not even `false`. */
export class NoRegistryError extends Error {}

/** The hash of no code. */
const NO_CODE = "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";

/** Reads the root of a registry's storage from the proof of its account. */
export const readStorageRoot = (stateRoot: Hex, registry: Address, proof: readonly string[]): Hex => {
  const account = readMerkleProof(stateRoot, registry, proof.map(readHex));
  const fields = account && fromRlp(account, "hex");
  if (!fields || typeof fields === "string" || fields.length !== 4 || fields[3] === NO_CODE) {
    throw new NoRegistryError("There is no registry at this block.");
  }
  return readHash(fields[2]);
};

/** Reads a word of a registry's storage from its proof; 0 if the slot is empty. */
export const readSlot = (storageRoot: Hex, slot: Hex, proof: readonly string[]): bigint => {
  const value = readMerkleProof(storageRoot, slot, proof.map(readHex));
  return value === null ? 0n : BigInt(pad(readHex(fromRlp(value, "hex"))));
};

export const readHex = (text: unknown): Hex => {
  const hex = String(text).toLowerCase();
  if (!/^0x([0-9a-f]{2})+$/.test(hex)) throw new Error(`${hex.slice(0, 80)} is not in hex digits.`);
  return hex as Hex;
};

export const readHash = (text: unknown): Hex => {
  const hex = readHex(text);
  if (hex.length !== 66) throw new Error(`${hex.slice(0, 80)} does not have 32 bytes.`);
  return hex;
};
