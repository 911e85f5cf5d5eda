import { type Hex, hexToBytes, keccak256 } from "viem";
import { BoundedMap } from "../../process/bounded.ts";

/** Values of several busy blocks: most tokens and events of a block are in the next one too. */
const MAX_CACHED_VALUES = 10_000;

const cachedBits = new BoundedMap<Hex, bigint>(MAX_CACHED_VALUES);

/** The three bits that an address or a topic sets in a bloom filter of 2048 bits. */
const bloomBits = (value: Hex): bigint => {
  const bits = cachedBits.get(value) ?? computeBits(value);
  cachedBits.set(value, bits);
  return bits;
};

const computeBits = (value: Hex): bigint => {
  const hash = hexToBytes(keccak256(value));
  const bit = (index: number) => 1n << BigInt((((hash[index] ?? 0) << 8) + (hash[index + 1] ?? 0)) & 0x7ff);
  return bit(0) | bit(2) | bit(4);
};

/** The filter of chains that maintain none: every log may be in the block. */
const ALL_BITS = (1n << 2048n) - 1n;

/** A filter without bits. Ponder fetches the logs of a block with it, as some chains maintain no filter. */
export const EMPTY_BLOOM: Hex = `0x${"0".repeat(512)}`;

/**
 * True if logs account for every bit of their block's bloom filter. Otherwise some logs are missing. Even if it is true,
 * logs that set the same bits as others may be missing. Logs outside the filter are accepted: some chains have a filter
 * of zeros, or logs of their own that are not in it.
 */
export const coversBloom = (logs: readonly { address: Hex; topics: readonly Hex[] }[], bloom: Hex): boolean => {
  if (isFull(bloom)) return true;
  const filter = BigInt(bloom);
  const values = new Set(logs.flatMap(({ address, topics }) => [address, ...topics]));
  let bits = 0n;
  for (const value of values) bits |= bloomBits(value);
  return (filter & ~bits) === 0n;
};

/** True unless a bloom filter shows that a block has no log with an address or topic. */
export const mayContain = (bloom: Hex, value: Hex): boolean => (~BigInt(bloom) & bloomBits(value)) === 0n;

/** True for the filter of a chain that maintains none. */
export const isFull = (bloom: Hex): boolean => BigInt(bloom) === ALL_BITS;

/** False for the filters of chains that maintain none: zeros, or ones. A block without logs has zeros too. */
export const isUsable = (bloom: Hex): boolean => BigInt(bloom) !== 0n && !isFull(bloom);
