import type { Client, Hash } from "viem";
import { getBlock } from "viem/actions";

/** Fetches the hash of the chain's block at a height; null if the node does not return it. */
export const fetchCanonicalHash = async (client: Client, blockNumber: bigint): Promise<Hash | null> => {
  try {
    const { hash } = await getBlock(client, { blockNumber });
    return hash;
  } catch {
    return null;
  }
};
