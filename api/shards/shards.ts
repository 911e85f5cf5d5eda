import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { networks, type RegistryVersion } from "../../registry/networks.ts";
import type { AskedBlock } from "../contract/parameters.ts";
import type { Database } from "../database/database.ts";
import { type Freshness, isFinal } from "../database/freshness.ts";
import { INDEX_RETRY_SECONDS, notIndexed, type ParameterError, Problem } from "../problem.ts";
import type { ApiSettings } from "../settings.ts";
import { readShards, type ShardChain } from "./read-shards.ts";

const REFRESH_MS = 2_000;
/** Callers within this time share a refresh. */
const SHARED_MS = 1_000;

export type ChainState = ShardChain & {
  /** Maximum time that answers are behind the chain; null while the index cannot answer for it. */
  lagSeconds: number | null;
  /** null while requests about the chain are answered. */
  notReadyReason: string | null;
};

export type ShardState = {
  shard: string;
  /** True once its indexer has registered its chains. */
  isStarted: boolean;
  /** True if it has an index to answer from. */
  isServed: boolean;
};

type FreshnessSettings = Pick<ApiSettings, "shards" | "maxIndexLagSeconds" | "quietChains">;

/** Finds the shard that answers for a chain, and tells why a chain cannot be answered for. */
export class Shards {
  readonly #database: Database;
  readonly #names: readonly string[];
  readonly maxLagSeconds: number;
  readonly #quietChains: ReadonlySet<number>;
  #chains: ReadonlyMap<number, ShardChain> = new Map();
  #chainIds: Record<RegistryVersion | "both", readonly number[]> = { v1: [], v2: [], both: [] };
  #states: readonly ShardState[];
  readonly #now: () => number;
  #isRefreshing = false;
  #latestRefresh = Promise.resolve();
  #refreshStartedAt = Number.NEGATIVE_INFINITY;
  /** Last failure to read the shards, while no chain is known. */
  #readFailure: Problem | null = null;

  constructor(
    database: Database,
    { shards, maxIndexLagSeconds, quietChains }: FreshnessSettings,
    now: () => number = () => performance.now(),
  ) {
    this.#database = database;
    this.#now = now;
    this.#names = shards;
    this.maxLagSeconds = maxIndexLagSeconds;
    this.#quietChains = quietChains;
    this.#states = shards.map((shard) => ({ shard, isStarted: false, isServed: false }));
  }

  /** Refreshes now, and every two seconds until the signal is aborted. */
  async watch(signal: AbortSignal, log: Logger): Promise<void> {
    const refresh = () =>
      this.refresh().catch((error) => {
        if (!(error instanceof Problem)) log.error({ err: error }, "Cannot read the shards");
      });
    await refresh();
    const keepRefreshing = async () => {
      while (!signal.aborted) {
        await sleep(REFRESH_MS, undefined, { signal }).catch(() => {});
        if (!signal.aborted) await refresh();
      }
    };
    keepRefreshing();
  }

  /** Reads the shards. Concurrent callers share one refresh. */
  refresh(): Promise<void> {
    if (!this.#isRefreshing) {
      this.#isRefreshing = true;
      this.#refreshStartedAt = this.#now();
      this.#latestRefresh = this.#tryRefresh().finally(() => {
        this.#isRefreshing = false;
      });
    }
    return this.#latestRefresh;
  }

  /** Shares the latest refresh, or its failure, for a second. While the database is out of reach, a new one fails at once. */
  refreshIfOld(): Promise<void> {
    const isRecent = this.#now() - this.#refreshStartedAt < SHARED_MS;
    return isRecent && this.#database.isReachable ? this.#latestRefresh : this.refresh();
  }

  async #tryRefresh(): Promise<void> {
    try {
      await this.#refreshChains();
      this.#readFailure = null;
    } catch (error) {
      // Keep the known chains: each answer reads its own block, and is rejected if that is too old.
      if (this.#chains.size === 0 && error instanceof Problem) this.#readFailure = error;
      // Read again as soon as the database is back.
      if (!this.#database.isReachable) this.#refreshStartedAt = Number.NEGATIVE_INFINITY;
      throw error;
    }
  }

  async #refreshChains(): Promise<void> {
    const found = await readShards(this.#database, this.#names);
    const inOrder = this.#names.flatMap((name) => found.filter(({ shard }) => shard === name));
    // Two shards may have the same chain, as while it moves between them: the freshest one answers.
    const rank = ({ freshness, isServed }: ShardChain) =>
      freshness ? Number(freshness.indexedBlockTimestamp) : isServed ? 0 : -1;
    const chains = new Map<number, ShardChain>();
    const wasSeen = (chain: ShardChain) => Number(secondsSince(chain.newestBlockSeenAt) <= this.maxLagSeconds);
    for (const chain of inOrder.toSorted((a, b) => rank(b) - rank(a) || wasSeen(b) - wasSeen(a))) {
      if (!chains.has(chain.chainId)) chains.set(chain.chainId, chain);
    }
    this.#chains = chains;
    const ids = [...chains.keys()].sort((a, b) => a - b);
    const having = (...versions: RegistryVersion[]) =>
      ids.filter((id) => versions.some((version) => networks.get(id)?.[version]));
    this.#chainIds = { v1: having("v1"), v2: having("v2"), both: having("v1", "v2") };
    this.#states = this.#names.map((name) => {
      const ofShard = found.filter(({ shard }) => shard === name);
      return { shard: name, isStarted: ofShard.length > 0, isServed: ofShard.some(({ isServed }) => isServed) };
    });
  }

  /** Shards whose indexer has not registered its chains. */
  get notStarted(): readonly string[] {
    return this.#states.flatMap(({ shard, isStarted }) => (isStarted ? [] : shard));
  }

  /** Finds the reason that there may be chains which are not known yet: their shard has not started. */
  findNotStartedProblem(): Problem | null {
    if (this.notStarted.length === 0) return null;
    const reason = `The chains of shard ${quoteNames(this.notStarted)} are not known: it has not started.`;
    return this.#readFailure ?? notIndexed(reason);
  }

  shardStates(): readonly ShardState[] {
    return this.#states;
  }

  /** Lists the chains with a registry: the same array until the next refresh. */
  chainIds(registry: RegistryVersion | "both"): readonly number[] {
    return this.#chainIds[registry];
  }

  /** All chains by id. */
  chainStates(): ChainState[] {
    return [...this.#chains.values()]
      .toSorted((a, b) => a.chainId - b.chainId)
      .map((chain) => ({
        ...chain,
        lagSeconds: chain.freshness && this.#findLag(chain.chainId, chain.freshness),
        notReadyReason: this.#findProblem(chain.chainId, chain.freshness)?.message ?? null,
      }));
  }

  /** Tells why a chain cannot be asked for; null if it is indexed, or if a shard that has not started may have it. */
  #findChainError(version: RegistryVersion, chainId: number): string | null {
    const network = networks.get(chainId);
    if (this.#chains.has(chainId)) {
      if (!network || network[version]) return null;
      return `has no ${version} registry on ${network.name}; ${version} is indexed here on ${this.#listNetworks(version)}`;
    }
    if (network?.[version] && this.notStarted.length > 0) return null;
    return `names a network that is not indexed here; indexed are ${this.#listNetworks(version)}`;
  }

  /** Creates a validator of chainId. An unknown network is a bad parameter; one that is not indexed yet is a 503. */
  validateChain(version: RegistryVersion) {
    return ({ chainId }: { chainId?: number }): ParameterError[] => {
      const message = chainId === undefined ? null : this.#findChainError(version, chainId);
      return message ? [{ parameter: "chainId", message }] : [];
    };
  }

  #listNetworks(version: RegistryVersion): string {
    const indexed = [...this.#chains.keys()]
      .filter((chainId) => networks.get(chainId)?.[version])
      .sort((a, b) => a - b)
      .map((chainId) => `${chainId} (${networks.get(chainId)?.name})`);
    return indexed.length > 0 ? indexed.join(", ") : "none yet";
  }

  /** Finds the schema of the views with a chain, which has the name of its shard. Throws a problem if there is none. */
  findSchema(version: RegistryVersion, chainId: number): string {
    const chain = this.#chains.get(chainId);
    const network = networks.get(chainId);
    // An index that was built with another address for this registry does not contain it.
    if (chain?.isServed && network && chain[version] !== network[version]?.address.toLowerCase()) {
      throw notIndexed(
        `The ${version} registry on ${network.name} is not in the served index; the operator has to build a new one.`,
      );
    }
    if (chain?.isServed) return chain.shard;
    if (this.#readFailure) throw this.#readFailure;
    throw this.#findProblem(chainId, null) ?? this.#createMissingProblem();
  }

  /**
   * Finds the number of the past block that a request asks for; undefined if it asks for the newest one. The newest final
   * block is the one of the last refresh: it stays final.
   */
  findBlock(chainId: number, { block }: AskedBlock): string | undefined {
    if (block !== "finalized") return block;
    return this.requireFresh(chainId, this.#chains.get(chainId)?.freshness ?? null).finalizedBlock;
  }

  /**
   * Throws a problem if an answer could be wrong.
   * @param freshness - read in the same statement as the answer
   * @param asked - the past block or time of the answer, or a block that the index must have reached. If the state is
   * final, the answer holds however old the index is.
   */
  requireFresh(chainId: number, freshness: Freshness | null, asked: AskedBlock = {}): Freshness {
    const problem = freshness && isFinal(freshness, asked) ? null : this.#findProblem(chainId, freshness);
    if (problem) throw problem;
    if (!freshness) throw this.#createMissingProblem();
    const { block, minBlock, timestamp } = asked;
    const { indexedBlock, indexedBlockTimestamp } = freshness;
    const indexed = `${describeChain(chainId)} is indexed up to block ${indexedBlock}`;
    const needed = block ?? minBlock;
    if (needed !== undefined && BigInt(needed) > BigInt(indexedBlock)) {
      throw notIndexed(`${indexed}, not yet up to block ${needed}.`);
    }
    // Another block with the timestamp of the newest one may follow.
    if (timestamp !== undefined && Number(timestamp) >= this.#findKnownTime(chainId, freshness)) {
      throw notIndexed(`${indexed}, of ${indexedBlockTimestamp}, not yet beyond ${timestamp}.`);
    }
    return freshness;
  }

  #createMissingProblem(): Problem {
    if (this.notStarted.length === 0) return notIndexed("This chain is no longer indexed.");
    return notIndexed(`This chain is not indexed yet: shard ${quoteNames(this.notStarted)} has not started.`);
  }

  #findProblem(chainId: number, freshness: Freshness | null): Problem | null {
    if (freshness) {
      const isFresh = this.#findLag(chainId, freshness) <= this.maxLagSeconds;
      return isFresh ? null : this.#createStaleProblem(chainId, freshness);
    }
    const chain = this.#chains.get(chainId);
    if (!chain) return null;
    const { verification, reachedBlock, newestBlock } = chain;
    if (verification.difference !== null) return createDifferenceProblem(chainId, verification.difference);
    if (verification.block === null && reachedBlock >= newestBlock) {
      return notIndexed(`${describeChain(chainId)} is indexed, and its index is being compared with the registries.`);
    }
    const progress = `its index has reached block ${reachedBlock} of ${newestBlock}`;
    return notIndexed(`${describeChain(chainId)} is still being indexed: ${progress}.`);
  }

  /**
   * The age of the newest indexed block. On a quiet chain whose newest block it is: the time since the indexer saw that.
   * What the indexer saw is as old as the last refresh, which makes the lag longer, never shorter.
   */
  #findLag(chainId: number, freshness: Freshness): number {
    const age = blockAge(freshness);
    const seenAt = this.#findSeenAt(chainId, freshness);
    return seenAt ? Math.min(age, secondsSince(seenAt)) : age;
  }

  /** The time before which all blocks of a chain are indexed, in seconds. A block may be made late, but not by more than answers may be. */
  #findKnownTime(chainId: number, freshness: Freshness): number {
    const seenAt = this.#findSeenAt(chainId, freshness);
    const indexed = Number(freshness.indexedBlockTimestamp);
    return seenAt ? Math.max(indexed, Math.floor(seenAt.getTime() / 1000) - this.maxLagSeconds) : indexed;
  }

  /** When the indexed block was last seen as the newest of a quiet chain; null if it was not. */
  #findSeenAt(chainId: number, freshness: Freshness): Date | null {
    const chain = this.#findQuietChain(chainId);
    const isNewest =
      chain?.newestBlock === Number(freshness.indexedBlock) &&
      chain.newestBlockTimestamp === Number(freshness.indexedBlockTimestamp);
    return isNewest ? chain.newestBlockSeenAt : null;
  }

  #findQuietChain(chainId: number): ShardChain | undefined {
    return this.#quietChains.has(chainId) ? this.#chains.get(chainId) : undefined;
  }

  #createStaleProblem(chainId: number, freshness: Freshness): Problem {
    const indexed = `${describeChain(chainId)} is indexed up to block ${freshness.indexedBlock}`;
    const old = `which is ${blockAge(freshness)} s old; the limit is ${this.maxLagSeconds} s.`;
    const chain = this.#findQuietChain(chainId);
    const seen = chain
      ? ` The chain's newest block was ${chain.newestBlock} ${secondsSince(chain.newestBlockSeenAt)} s ago.`
      : "";
    return new Problem("stale-index", `${indexed}, ${old}${seen}`, {
      headers: { "Retry-After": String(INDEX_RETRY_SECONDS) },
    });
  }
}

const createDifferenceProblem = (chainId: number, difference: string): Problem =>
  new Problem(
    "index-differs",
    `The index of ${describeChain(chainId)} differs from the registries, and is being repaired: ${difference}.`,
    { headers: { "Retry-After": String(INDEX_RETRY_SECONDS) } },
  );

const quoteNames = (names: readonly string[]): string => names.map((name) => `"${name}"`).join(", ");

export const describeChain = (chainId: number) => `Chain ${chainId} (${networks.get(chainId)?.name})`;

/** The newest known block of a chain: the indexed block may be newer than the head that the indexer last recorded. */
export const newestKnownBlock = ({ newestBlock, freshness }: Pick<ShardChain, "newestBlock" | "freshness">): number =>
  Math.max(newestBlock, Number(freshness?.indexedBlock ?? 0));

const secondsSince = (time: Date): number => Math.max(0, Math.floor((Date.now() - time.getTime()) / 1000));

const blockAge = ({ indexedBlockTimestamp }: Freshness): number =>
  secondsSince(new Date(Number(indexedBlockTimestamp) * 1000));
