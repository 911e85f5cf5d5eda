import type { Context } from "ponder:registry";
import type { Hash } from "viem";

export type BlockId = { number: bigint; hash: Hash };

/** The progress of a chain since this process started. */
export class ChainProgress {
  #firstLiveBlock: bigint | undefined;
  #newestBackfilledEvent = "";
  #unresolved: { first: BlockId; newest: Hash } | undefined;

  /** True once the chain is followed block by block. Before that, a block is final, or no later block is checked. */
  get isLive(): boolean {
    return this.#firstLiveBlock !== undefined;
  }

  /** @returns the first live block */
  startLive(block: bigint): bigint {
    this.#firstLiveBlock ??= block;
    return this.#firstLiveBlock;
  }

  /**
   * Records an event of the backfill.
   * @returns false if the event was recorded before
   */
  recordBackfilled(eventId: string): boolean {
    if (eventId <= this.#newestBackfilledEvent) return false;
    this.#newestBackfilledEvent = eventId;
    return true;
  }

  /** Marks a block as unresolved: the node has replaced it, and no longer has its state. */
  markUnresolved(block: BlockId) {
    if (this.#unresolved?.newest !== block.hash) this.#unresolved = { first: block, newest: block.hash };
  }

  /** @returns the first unresolved block, if the given block is that block or a descendant of it */
  findUnresolved(hash: Hash, parentHash: Hash): BlockId | null {
    const unresolved = this.#unresolved;
    if (!unresolved || (unresolved.newest !== hash && unresolved.newest !== parentHash)) return null;
    unresolved.newest = hash;
    return unresolved.first;
  }
}

// Ponder creates `context` itself and loads each file with handlers separately: handlers can share memory only through
// a module.
const progressByChain = new Map<number, ChainProgress>();

export const getChainProgress = ({ chain }: Context): ChainProgress => {
  const progress = progressByChain.get(chain.id) ?? new ChainProgress();
  progressByChain.set(chain.id, progress);
  return progress;
};
