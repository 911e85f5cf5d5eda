import { setTimeout as sleep } from "node:timers/promises";
import type { HeadFetcher } from "./fetch-heads.ts";
import type { ChainPlan, IndexPlan } from "./plan.ts";
import type { FinalBlock, FinalBlocks, Finality } from "./shards/final-blocks.ts";
import { readFinalBlocks, readFinality, saveFinalBlock } from "./shards/final-blocks.ts";
import type { Heads } from "./shards/heads.ts";
import type { IndexerDatabase } from "./shards/index-database.ts";
import type { ValidBlock } from "./shards/rewind-chain.ts";

const CHECK_INTERVAL_MS = 60_000;
/** A block counts as replaced if several attempts say so: behind one URL there may be a node on a fork. */
const ATTEMPTS = 3;
const RETRY_MS = 1_000;
/** The fewest blocks after which Ponder treats a block as final. */
const FINALITY = 30n;

type Options = {
  schema: string;
  plan: IndexPlan;
  database: IndexerDatabase;
  headFetcher: HeadFetcher;
  log: (message: string) => void;
};

/** A final block, to be stored once Ponder has indexed a block after the head: then it has verified all ancestors. */
type Candidate = FinalBlock & { fetchedAt: number; head: bigint | undefined };

/**
 * Finds reorgs that are deeper than final, which Ponder cannot revert, also those that happen while no indexer runs. The
 * hashes of final blocks are stored, and compared with the chain at each start and every minute.
 */
export class DeepReorgs {
  readonly #options: Options;
  readonly #candidates = new Map<number, Candidate>();
  #replaced: string | undefined;
  #checkedAt = Number.NEGATIVE_INFINITY;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Before Ponder starts: removes blocks that a deep reorg has replaced. Throws if a chain is unreachable. */
  async rewind(heads: Heads): Promise<void> {
    this.#candidates.clear();
    this.#replaced = undefined;
    this.#checkedAt = Number.NEGATIVE_INFINITY;
    const { schema, plan, database } = this.#options;
    const known = new Map<ChainPlan, FinalBlocks>();
    for (const chain of plan.chains)
      known.set(chain, await readFinalBlocks(database.connection, schema, chain.chainId));
    const found = await Promise.all(
      [...known].map(async ([chain, blocks]) => ({
        chainId: chain.chainId,
        valid: await this.#findValidBlock(chain, blocks),
        final: await this.#fetchFinalBlock(chain, heads),
      })),
    );
    for (const { chainId, valid, final } of found) {
      if (valid) await database.rewindChain(schema, valid);
      if (final) await saveFinalBlock(database.connection, schema, chainId, final);
    }
  }

  async #fetchFinalBlock({ chainId }: ChainPlan, heads: Heads): Promise<FinalBlock | undefined> {
    const number = (heads.get(chainId)?.number ?? 0n) - FINALITY;
    const [block] = number > 0n ? await this.#options.headFetcher.fetchBlocks(chainId, number) : [];
    return block && { number: Number(number), hash: block.hash };
  }

  /**
   * While Ponder runs: stores final blocks, and compares the stored ones every minute.
   * @returns a message if a final block was replaced. The next start removes it.
   */
  async check(newHeads: Heads, now: number): Promise<string | undefined> {
    const isDue = now - this.#checkedAt >= CHECK_INTERVAL_MS;
    if (this.#replaced || (!isDue && this.#candidates.size === 0)) return this.#replaced;
    if (isDue) this.#checkedAt = now;
    for (const finality of await readFinality(this.#options.database.connection, this.#options.schema)) {
      await this.#storeCandidate(finality, newHeads);
      if (isDue) await this.#startComparison(finality);
    }
    return this.#replaced;
  }

  async #storeCandidate({ chainId, indexed }: Finality, newHeads: Heads): Promise<void> {
    const candidate = this.#candidates.get(chainId);
    const head = newHeads.get(chainId);
    if (!candidate) return;
    if (head && head.fetchedAt > candidate.fetchedAt) candidate.head ??= head.number;
    if (candidate.head === undefined || indexed <= candidate.head) return;
    this.#candidates.delete(chainId);
    await saveFinalBlock(this.#options.database.connection, this.#options.schema, chainId, candidate);
  }

  async #startComparison({ chainId, final }: Finality): Promise<void> {
    const { stored, valid } = await readFinalBlocks(this.#options.database.connection, this.#options.schema, chainId);
    if (valid !== null) this.#replaced = describeReplaced(chainId, valid + 1);
    // Not awaited: an endpoint may take its time. If it fails, the next comparison asks again.
    this.#compare(chainId, final, stored[0]).catch(() => {});
  }

  async #compare(chainId: number, final: number, stored: FinalBlock | undefined): Promise<void> {
    if (stored && (await this.#isReplaced(chainId, stored))) {
      this.#replaced = describeReplaced(chainId, stored.number);
      return;
    }
    const [block, ...others] = await this.#options.headFetcher.fetchBlocks(chainId, BigInt(final));
    if (!block || others.some(({ hash }) => hash !== block.hash)) return;
    const fetchedAt = performance.now();
    this.#candidates.set(chainId, { number: final, hash: block.hash, fetchedAt, head: undefined });
  }

  /** @returns the last valid block of a chain, if later ones were replaced */
  async #findValidBlock(
    { chainId, name, v1, v2 }: ChainPlan,
    { stored, fetched, valid }: FinalBlocks,
  ): Promise<ValidBlock | undefined> {
    const { headFetcher, log } = this.#options;
    const newest = [stored[0], fetched].flatMap((block) => block ?? []);
    const replaced = await Promise.all(newest.map((block) => this.#isReplaced(chainId, block)));
    if (valid === null && !replaced.includes(true)) return undefined;

    let number = Math.max(0, Math.min(v1?.startBlock ?? Infinity, v2?.startBlock ?? Infinity) - 1);
    for (const block of stored.filter((block) => block.number <= (valid ?? Infinity))) {
      const found = await headFetcher.fetchBlocks(chainId, BigInt(block.number));
      if (!found.some(({ hash }) => hash === block.hash)) continue;
      number = block.number;
      break;
    }
    log(`${name}: a reorg was deeper than final. Indexing again from block ${number + 1}.`);
    const [block] = await headFetcher.fetchBlocks(chainId, BigInt(number));
    if (!block) throw new Error(`${name}: no RPC endpoint has block ${number}.`);
    return { chainId, number, timestamp: block.timestamp };
  }

  /** True if no endpoint has the block, and one has another block in its place. */
  async #isReplaced(chainId: number, { number, hash }: FinalBlock): Promise<boolean> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      if (attempt > 1) await sleep(RETRY_MS);
      const blocks = await this.#options.headFetcher.fetchBlocks(chainId, BigInt(number));
      if (blocks.length === 0 || blocks.some((block) => block.hash === hash)) return false;
    }
    return true;
  }
}

const describeReplaced = (chainId: number, number: number): string =>
  `Block ${number} of chain ${chainId} was final, and is not on the chain any more`;
