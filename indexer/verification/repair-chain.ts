import type { Address } from "viem";
import { describeError } from "../../process/program.ts";
import type { ChainPlan } from "../plan.ts";
import { redactUrl } from "../rpc/redact.ts";
import type { ValidBlock } from "../shards/rewind-chain.ts";
import { readPastLists } from "./read-lists.ts";
import type { Difference, VerifiedChain } from "./verify-chain.ts";

/** Repairs in a row that are tried at once. The pause before each further one is twice as long. */
const QUICK_REPAIRS = 3;
const FIRST_PAUSE_MS = 600_000;
/** Blocks around a lost one whose logs are proven too. */
const BLOCKS_BEFORE = 1_000;
const BLOCKS_AFTER = 4_000;
/** If that was not enough, the logs of all blocks are proven on a chain that has no more than this. */
const MAX_PROVEN_BLOCKS = 20_000;
/** Wallets whose lost blocks are searched for at a time. */
const SEARCHED = 8;

/**
 * Repairs the index of a chain that differs from the registries: finds the blocks whose logs are lost, and what to fetch
 * again, and how.
 */
export class ChainRepair {
  readonly #options: VerifiedChain;
  #repairs = 0;
  #isOfLog = false;
  #nextAt = 0;
  #plan: Pick<ChainPlan, "recentOnlyUrls" | "provenRanges"> = {};

  constructor(options: VerifiedChain) {
    this.#options = options;
  }

  isDue(now: number): boolean {
    return now >= this.#nextAt;
  }

  /** True if the index still differed after several repairs: others do not wait for the chain. */
  get hasFailed(): boolean {
    return this.#repairs >= QUICK_REPAIRS;
  }

  /** The chain, as it is to be fetched after what the repairs have found. */
  get chain(): ChainPlan {
    return { ...this.#options.chain, ...this.#plan };
  }

  succeed(): void {
    // The comparison before an index is served does not show that its log is right.
    if (!this.#isOfLog) this.#repairs = 0;
  }

  /** Finds the block after which everything has to be fetched again. */
  async prepare(difference: Difference, now: number): Promise<ValidBlock> {
    const { chain, state, log } = this.#options;
    const { chainId, name, v1, v2, rpcUrls, recentOnlyUrls = [] } = chain;
    const start = Math.max(0, Math.min(v1?.startBlock ?? Infinity, v2?.startBlock ?? Infinity));
    this.#isOfLog = difference.isOfLog;
    this.#repairs++;
    if (this.hasFailed) this.#nextAt = now + FIRST_PAUSE_MS * 2 ** (this.#repairs - QUICK_REPAIRS);

    const lost = await this.#findLostBlock(difference, start).catch((error) => {
      log(`${name}: cannot find the block of the difference: ${describeError(error)}. All blocks are fetched again.`);
      return undefined;
    });
    const isWhole = lost === undefined || (this.#repairs > 1 && difference.block - start <= MAX_PROVEN_BLOCKS);
    const proven = isWhole ? start : Math.max(start, lost - BLOCKS_BEFORE);
    const last = Math.min(isWhole ? difference.block : lost + BLOCKS_AFTER, proven + MAX_PROVEN_BLOCKS);
    // Where the state is right, indexing some blocks again would change nothing in it, and add no row to the log.
    const first = difference.isOfLog ? start : proven;
    const lacking = lost === undefined ? [] : await state.findLacking(lost);
    const others = rpcUrls.filter((url) => !lacking.includes(url) && !recentOnlyUrls.includes(url));
    this.#plan = {
      provenRanges: [...(this.#plan.provenRanges ?? []), { first: proven, last }],
      recentOnlyUrls: others.length > 0 ? [...new Set([...recentOnlyUrls, ...lacking])] : recentOnlyUrls,
    };
    const liars = lacking.length > 0 ? ` ${lacking.map(redactUrl).join(", ")} did not return them.` : "";
    const found = lost === undefined ? "" : ` Changes of block ${lost} are missing in the index.${liars}`;
    const fetched = `Fetching all blocks from ${first} again, with proof of the logs of blocks ${proven} to ${last}.`;
    log(`${name}: repair ${this.#repairs}.${found} ${fetched}`);
    const number = Math.max(0, first - 1);
    const { timestamp } = await state.fetchBlock(number);
    return { chainId, number, timestamp };
  }

  /** Finds the first block after which any of the wallets differs by the log. Needs the state of old blocks. */
  async #findLostBlock({ wallets, block }: Difference, start: number): Promise<number | undefined> {
    const differ = await Promise.all(wallets.map((wallet) => this.#differsAt(wallet, block)));
    let left = wallets.filter((_, index) => differ[index]);
    // The log is right, and the tables of active delegations are not: they are built again.
    if (left.length === 0) return undefined;
    let first = block;
    while (left.length > 0) {
      const found = await Promise.all(left.slice(0, SEARCHED).map((wallet) => this.#search(wallet, start - 1, first)));
      first = Math.min(first, ...found);
      const before = first - 1;
      const differ = await Promise.all(left.slice(SEARCHED).map((wallet) => this.#differsAt(wallet, before)));
      left = left.slice(SEARCHED).filter((_, index) => differ[index]);
    }
    return first;
  }

  /** Finds a block after which a wallet differs, and before which it does not. */
  async #search(wallet: Address, agreeing: number, differing: number): Promise<number> {
    let [low, high] = [agreeing, differing];
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (await this.#differsAt(wallet, middle)) high = middle;
      else low = middle;
    }
    return high;
  }

  async #differsAt(wallet: Address, number: number): Promise<boolean> {
    const { connection, schema, chain, state } = this.#options;
    if (number < 0) return false;
    const [block, lists] = await Promise.all([
      state.fetchBlock(number),
      readPastLists(connection, schema, { chainId: chain.chainId, wallet, block: number }),
    ]);
    return (await state.findDiffering({ block, lists })).size > 0;
  }
}
