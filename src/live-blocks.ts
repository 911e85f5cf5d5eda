import type { Hash } from "viem";

const liveChains = new Set<number>();
const undecided = new Set<Hash>();

/** Whether a chain is followed block by block. Before that, its blocks are final, or no block after them is checked. */
export const isLive = (chainId: number): boolean => liveChains.has(chainId);

export const markLive = (chainId: number) => liveChains.add(chainId);

/** Leaves open what a block changed: the node has replaced it, and can no longer tell. */
export const leaveUndecided = (hash: Hash) => undecided.add(hash);

/** Whether a block was left open. Asked once for each block, after its other events. */
export const takeUndecided = (hash: Hash): boolean => undecided.delete(hash);
