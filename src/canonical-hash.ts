import type { Client, Hash } from "viem";
import { getBlock } from "viem/actions";

/** The hash of the block that a chain has at a height; null where the node does not say. */
export const canonicalHash = async (client: Client, blockNumber: bigint): Promise<Hash | null> => {
  try {
    const { hash } = await getBlock(client, { blockNumber });
    return hash;
  } catch {
    return null;
  }
};
