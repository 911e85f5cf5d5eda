import { type Hex, hexToBytes, keccak256 } from "viem";

type Log = { address: Hex; topics: readonly Hex[] };

/** The three bits that an address or a topic sets in a bloom filter of 2048. */
const bitsOf = (value: Hex): bigint => {
  const hash = hexToBytes(keccak256(value));
  const bit = (index: number) => 1n << BigInt((((hash[index] ?? 0) << 8) + (hash[index + 1] ?? 0)) & 0x7ff);
  return bit(0) | bit(2) | bit(4);
};

/** What chains say that keep no such filter: anything may be in a block. */
const ANYTHING = (1n << 2048n) - 1n;

/**
 * Whether logs account for every bit of their block's bloom filter. If they do not, some are missing. If they do, some
 * may still be: those that set the same bits as others. Logs that the filter knows nothing of do no harm: some chains
 * have a filter of zeros, or logs of their own that are not in it.
 */
export const accountForBloom = (logs: readonly Log[], bloom: Hex): boolean => {
  const filter = BigInt(bloom);
  if (filter === ANYTHING) return true;
  const values = new Set(logs.flatMap(({ address, topics }) => [address, ...topics]));
  let bits = 0n;
  for (const value of values) bits |= bitsOf(value);
  return (filter & ~bits) === 0n;
};
