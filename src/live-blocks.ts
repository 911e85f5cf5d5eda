import type { Hash } from "viem";

export type BlockId = { number: bigint; hash: Hash };

/** By chain, the first block that was followed live. */
const firstLive = new Map<number, bigint>();
const undecided = new Map<number, { first: BlockId; newest: Hash }>();

/** Whether a chain is followed block by block. Before that, its blocks are final, or no block after them is checked. */
export const isLive = (chainId: number): boolean => firstLive.has(chainId);

/** @returns the first block that was */
export const markLive = (chainId: number, block: bigint): bigint => {
  const first = firstLive.get(chainId) ?? block;
  firstLive.set(chainId, first);
  return first;
};

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
