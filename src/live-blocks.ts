import type { Hash } from "viem";

export type BlockId = { number: bigint; hash: Hash };

const liveChains = new Set<number>();
const undecided = new Map<number, { first: BlockId; newest: Hash }>();

/** Whether a chain is followed block by block. Before that, its blocks are final, or no block after them is checked. */
export const isLive = (chainId: number): boolean => liveChains.has(chainId);

export const markLive = (chainId: number) => liveChains.add(chainId);

/** Leaves open what a block changed: the node has replaced it, and can no longer tell. */
export const leaveUndecided = (chainId: number, block: BlockId) => {
  const open = undecided.get(chainId);
  if (open?.newest !== block.hash) undecided.set(chainId, { first: block, newest: block.hash });
};

/** The block from which on a chain is left open, if this block is that one or follows it. */
export const undecidedSince = (chainId: number, hash: Hash, parentHash: Hash): BlockId | null => {
  const open = undecided.get(chainId);
  if (!open || (open.newest !== hash && open.newest !== parentHash)) return null;
  open.newest = hash;
  return open.first;
};
