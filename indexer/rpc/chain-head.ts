import type { HeadSubscription } from "./head-subscription.ts";
import { isBlock, type RecentBlocks, type RpcBlock } from "./recent-blocks.ts";

/** Time that the newest block is kept while every response is older. Then the chain has become shorter. */
const KEEP_MS = 30_000;
/** Time without a new block after which other endpoints are asked for one: the one that responds may be stuck. */
const MAX_UNCHANGED_MS = 30_000;
/** Times between blocks that show how often a chain makes one. Shorter ones than this save no request. */
const INTERVALS = 16;
const MIN_INTERVAL_MS = 2_000;

/**
 * Requests the newest block from one endpoint after another until a result is acceptable.
 * @param options needsAll: throws if there is none, and an endpoint is unreachable
 */
type Request = (isAcceptable: (result: unknown) => boolean, options?: { needsAll: boolean }) => Promise<unknown>;

const isAtLeast = (number: bigint) => (result: unknown) => isBlock(result) && BigInt(result.number) >= number;

/**
 * The newest block of a chain, as Ponder knows it. Behind one URL there may be several nodes, some a block behind the
 * others: Ponder would revert the block that such a node lacks.
 */
export class ChainHead {
  readonly #recent: RecentBlocks;
  readonly #subscription: HeadSubscription | null;
  #block: RpcBlock | undefined;
  #seenAt = 0;
  /** When the block changed, or other endpoints were last asked for a newer one. */
  #unchangedSince = 0;
  #nextExpectedAt = 0;

  constructor(recent: RecentBlocks, subscription: HeadSubscription | null) {
    this.#recent = recent;
    this.#subscription = subscription;
  }

  /** Returns the newest block: from memory if there cannot be another one yet, otherwise from a node. */
  async fetch(request: Request): Promise<unknown> {
    if (this.#block && this.#isNewest()) return this.#block;
    const finishPoll = this.#subscription?.startPoll();
    const block = await this.#fetchNewest(request);
    if (!isBlock(block)) return block;
    finishPoll?.(block.hash);
    return this.#keepNewest(block);
  }

  /** Asks further endpoints if one is behind the known block, and at times for a newer one. */
  async #fetchNewest(request: Request): Promise<unknown> {
    const known = BigInt(this.#block?.number ?? 0);
    if (Date.now() - this.#unchangedSince > MAX_UNCHANGED_MS) {
      this.#unchangedSince = Date.now();
      const newer = await request(isAtLeast(known + 1n));
      if (isAtLeast(known)(newer)) return newer;
    }
    // While an endpoint is out, an older block of another one does not mean that the chain has become shorter.
    return request(isAtLeast(known), { needsAll: true });
  }

  #isNewest(): boolean {
    if (this.#subscription?.hasAnnounced()) return false;
    return Date.now() < this.#nextExpectedAt || (this.#subscription?.isUpToDate() ?? false);
  }

  #keepNewest(block: RpcBlock): RpcBlock {
    const newest = this.#block;
    const isBehind = newest && newest.hash !== block.hash && this.#recent.isAncestor(block.hash, newest);
    if (isBehind && Date.now() - this.#seenAt < KEEP_MS) return newest;
    if (newest?.hash !== block.hash) {
      this.#nextExpectedAt = this.#expectNext(block);
      this.#unchangedSince = Date.now();
    }
    this.#block = block;
    this.#seenAt = Date.now();
    return block;
  }

  /** The earliest time of the next block, by the shortest time between the last ones; 0 if that is short, or not known. */
  #expectNext(block: RpcBlock): number {
    const times = this.#recent.listAncestors(block, INTERVALS + 1).map(({ timestamp }) => Number(timestamp) * 1000);
    if (times.length <= INTERVALS) return 0;
    const shortest = Math.min(...times.slice(1).map((time, index) => (times[index] ?? time) - time));
    // The chain's clock may be ahead.
    return shortest < MIN_INTERVAL_MS ? 0 : Math.min(times[0] ?? 0, Date.now()) + shortest;
  }
}
