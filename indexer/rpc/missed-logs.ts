import { type Address, type Hash, numberToHex } from "viem";
import { BoundedMap, BoundedSet } from "../../process/bounded.ts";
import { logKey, type RpcLog } from "./json-rpc.ts";
import { EMPTY_BLOOM, isFull, mayContain } from "./logs-bloom.ts";
import type { RangeLogs } from "./range-logs.ts";
import { MAX_RECENT_BLOCKS, type RecentBlocks, type RpcBlock } from "./recent-blocks.ts";

const CHECK_INTERVAL_MS = 30_000;
/** Blocks after which a check is due, and after which Ponder has to wait for it: it reverts no more than 30 blocks. */
const CHECK_INTERVAL_BLOCKS = 12;
const MAX_UNCHECKED_BLOCKS = 24;
/** The newest blocks are left to the next check: nodes may not have all their logs yet. */
const NEWEST_BLOCKS = 4;
/** Blocks that are checked twice, as a reorg may have replaced them. */
const OVERLAP_BLOCKS = 12;
const MAX_LOGS = 10_000;

/**
 * Finds logs of the registries that Ponder did not request because a bloom filter lacks them. The logs of all recent
 * blocks are requested by address: at the start, then every 12 blocks or 30 s. Ponder receives a block with such logs
 * with an empty filter, and then requests its logs. If Ponder has the block already, the handlers end Ponder; its next
 * start fetches the block again.
 */
export class MissedLogs {
  readonly #registries: readonly Address[];
  readonly #rangeLogs: RangeLogs;
  readonly #recent: RecentBlocks;
  /** The registries' logs by block, as requested by address. */
  readonly #expected = new BoundedMap<Hash, RpcLog[]>(MAX_LOGS);
  readonly #delivered = new BoundedSet<string>(MAX_LOGS);
  readonly #empty = new BoundedSet<Hash>(MAX_LOGS);
  #hasHiddenLogs = false;
  #check: Promise<void> | undefined;
  #checkedAt = Number.NEGATIVE_INFINITY;
  #checkedBlock = -1;

  constructor(registries: readonly Address[], rangeLogs: RangeLogs, recent: RecentBlocks) {
    this.#registries = registries;
    this.#rangeLogs = rangeLogs;
    this.#recent = recent;
  }

  /** Checks the blocks up to the newest one, now and then. Throws if they have not been checked for too long. */
  async check(newest: RpcBlock): Promise<void> {
    if (this.#registries.length === 0) return;
    const number = Number(newest.number);
    const isFirst = this.#checkedBlock < 0;
    const unchecked = number - this.#checkedBlock;
    const isDue = unchecked > CHECK_INTERVAL_BLOCKS || performance.now() - this.#checkedAt > CHECK_INTERVAL_MS;
    if (isDue && !this.#check) {
      this.#check = this.#checkUpTo(Math.max(0, number - (isFirst ? 0 : NEWEST_BLOCKS))).finally(() => {
        this.#check = undefined;
      });
      // A check that nobody waits for is repeated after a failure.
      this.#check.catch(() => {});
    }
    // Ponder does not start without the newest block.
    if (isFirst) await this.#check?.catch(() => {});
    else if (unchecked > MAX_UNCHECKED_BLOCKS) await this.#check;
  }

  /**
   * Empties the bloom filter of a block if it, or an earlier one, lacks logs of its block. Also if it has bits although the
   * block has no logs: Ponder rejects such a block.
   */
  correctBloom(block: RpcBlock): RpcBlock {
    const isHidden = (log: RpcLog) =>
      block.logsBloom !== EMPTY_BLOOM &&
      [log.address, ...log.topics].some((value) => !mayContain(block.logsBloom, value));
    // One filter without its logs is a sign of others.
    this.#hasHiddenLogs ||= this.#expected.get(block.hash)?.some(isHidden) ?? false;
    const isWrong = this.#hasHiddenLogs || isFull(block.logsBloom) || this.#empty.has(block.hash);
    return isWrong ? { ...block, logsBloom: EMPTY_BLOOM } : block;
  }

  /** Records logs that Ponder has received. */
  recordDelivered(logs: readonly RpcLog[]) {
    for (const log of logs) this.#delivered.add(logKey(log));
  }

  /** Records a block without logs. */
  recordEmpty(hash: Hash) {
    this.#empty.add(hash);
  }

  /**
   * Finds a block with logs that Ponder has not received, from the first one that it has indexed live to the given one.
   * Only ancestors count: in a reorg, the blocks of the other fork are known before Ponder requests their logs.
   */
  find(first: bigint, hash: Hash): RpcBlock | undefined {
    const newest = this.#recent.get(hash);
    const indexed = newest ? this.#recent.listAncestors(newest, MAX_RECENT_BLOCKS) : [];
    const isMissed = (log: RpcLog) => !this.#delivered.has(logKey(log));
    return indexed.find((block) => BigInt(block.number) >= first && this.#expected.get(block.hash)?.some(isMissed));
  }

  async #checkUpTo(last: number): Promise<void> {
    const from = this.#checkedBlock < 0 ? last - MAX_RECENT_BLOCKS : this.#checkedBlock - OVERLAP_BLOCKS;
    const range = { fromBlock: numberToHex(Math.max(0, from)), toBlock: numberToHex(last) };
    const logs = await this.#rangeLogs.fetch({ address: this.#registries, ...range }, false);
    this.#checkedAt = performance.now();
    this.#checkedBlock = last;
    for (const log of logs) {
      const others = this.#expected.get(log.blockHash)?.filter((other) => logKey(other) !== logKey(log)) ?? [];
      this.#expected.set(log.blockHash, [...others, log]);
    }
  }
}
