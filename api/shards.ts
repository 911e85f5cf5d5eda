import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { networks, type RegistryVersion } from "../registry/networks.ts";
import type { Database } from "./database.ts";
import { INDEXING_SECONDS, notIndexed, type ParameterError, Problem } from "./problem.ts";
import type { Freshness } from "./queries/freshness.ts";
import { readShards, type ShardChain } from "./queries/read-shards.ts";

const REFRESH_MS = 2_000;

/** A chain, and why it is not answered for; null where it is. */
export type ChainState = ShardChain & { why: string | null };

export type ShardState = {
  shard: string;
  /** Whether it has said what it indexes. */
  isStarted: boolean;
  /** Whether it has an index to answer from. */
  isServed: boolean;
};

/** Which shard answers for which chain, and whether it can. */
export class Shards {
  readonly #database: Database;
  readonly #names: readonly string[];
  readonly maxLagSeconds: number;
  #chains: ReadonlyMap<number, ShardChain> = new Map();
  #silent: readonly string[];
  #served: readonly string[] = [];
  #looking: Promise<void> | undefined;
  /** Why nothing is known at all, while that is so. */
  #trouble: Problem | null = null;

  constructor(database: Database, names: readonly string[], maxLagSeconds: number) {
    this.#database = database;
    this.#names = names;
    this.maxLagSeconds = maxLagSeconds;
    this.#silent = names;
  }

  /** Looks at the shards now, and again every two seconds until the signal is aborted. */
  async watch(signal: AbortSignal, log: Logger): Promise<void> {
    const look = async () => {
      try {
        await this.refresh();
      } catch (error) {
        if (!(error instanceof Problem)) log.error({ err: error }, "Cannot look at the shards");
      }
    };
    await look();
    const keepLooking = async () => {
      while (!signal.aborted) {
        await sleep(REFRESH_MS, undefined, { signal }).catch(() => {});
        if (!signal.aborted) await look();
      }
    };
    keepLooking();
  }

  /** Looks at the shards now; whoever asks meanwhile waits for the same look. */
  refresh(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #look(): Promise<void> {
    try {
      await this.#readShards();
      this.#trouble = null;
    } catch (error) {
      // What is known stays known: whether it still holds, each answer finds out by itself.
      if (this.#chains.size === 0 && error instanceof Problem) this.#trouble = error;
      throw error;
    }
  }

  async #readShards(): Promise<void> {
    const found = await readShards(this.#database, this.#names);
    const inOrder = this.#names.flatMap((name) => found.filter(({ shard }) => shard === name));
    // Two shards may have the same chain, as when it moves from one to the other: the freshest answers.
    const rank = ({ freshness, isServed }: ShardChain) =>
      freshness ? Number(freshness.indexedBlockTimestamp) : isServed ? 0 : -1;
    const chains = new Map<number, ShardChain>();
    for (const chain of inOrder.toSorted((a, b) => rank(b) - rank(a))) {
      if (!chains.has(chain.chainId)) chains.set(chain.chainId, chain);
    }
    this.#chains = chains;
    this.#silent = this.#names.filter((name) => !found.some(({ shard }) => shard === name));
    this.#served = this.#names.filter((name) => found.some(({ shard, isServed }) => shard === name && isServed));
  }

  /** The shards that have not said what they index. */
  get silent(): readonly string[] {
    return this.#silent;
  }

  shardStates(): ShardState[] {
    return this.#names.map((shard) => ({
      shard,
      isStarted: !this.#silent.includes(shard),
      isServed: this.#served.includes(shard),
    }));
  }

  /** Every chain, in the order of their ids, with whether it is answered for. */
  states(): ChainState[] {
    return [...this.#chains.values()]
      .toSorted((a, b) => a.chainId - b.chainId)
      .map((chain) => ({ ...chain, why: this.#whyNot(chain.chainId, chain.freshness)?.message ?? null }));
  }

  /** Why a chain is not known here, if it is not; for a chain that may yet turn up, null. */
  refuse(version: RegistryVersion, chainId: number): string | null {
    const network = networks.get(chainId);
    if (this.#chains.has(chainId)) {
      if (!network || network[version]) return null;
      return `has no ${version} registry on ${network.name}; ${version} is indexed here on ${this.#list(version)}`;
    }
    if (network?.[version] && this.#silent.length > 0) return null;
    return `names a network that is not indexed here; indexed are ${this.#list(version)}`;
  }

  /** Names a network that is not indexed here, among the bad parameters. */
  checkChain(version: RegistryVersion) {
    return ({ chainId }: { chainId?: number }): ParameterError[] => {
      const message = chainId === undefined ? null : this.refuse(version, chainId);
      return message ? [{ parameter: "chainId", message }] : [];
    };
  }

  #list(version: RegistryVersion): string {
    const known = [...this.#chains.keys()]
      .filter((chainId) => networks.get(chainId)?.[version])
      .sort((a, b) => a - b)
      .map((chainId) => `${chainId} (${networks.get(chainId)?.name})`);
    return known.length > 0 ? known.join(", ") : "none yet";
  }

  /** The schema to ask about a registry on a chain. Throws a Problem where there is none. */
  schemaOf(version: RegistryVersion, chainId: number): string {
    const chain = this.#chains.get(chainId);
    const network = networks.get(chainId);
    // An index that was built when the network was known otherwise says nothing of this registry.
    if (chain?.isServed && network && chain[version] !== network[version]?.address.toLowerCase()) {
      throw notIndexed(
        `The ${version} registry on ${network.name} is not in the index that is served: a new one is needed.`,
      );
    }
    if (chain?.isServed) return chain.shard;
    if (this.#trouble) throw this.#trouble;
    throw this.#whyNot(chainId, null) ?? notIndexed(this.#missing());
  }

  /** Refuses an answer that could be wrong. */
  requireFresh(chainId: number, freshness: Freshness | null): Freshness {
    const problem = this.#whyNot(chainId, freshness);
    if (problem) throw problem;
    if (!freshness) throw notIndexed(this.#missing());
    return freshness;
  }

  #missing(): string {
    if (this.#silent.length === 0) return "This chain is not indexed any more.";
    return `This chain is not indexed yet: shard ${this.#silent.map((name) => `"${name}"`).join(", ")} has not started.`;
  }

  #whyNot(chainId: number, freshness: Freshness | null): Problem | null {
    if (freshness) {
      const lag = lagSeconds(freshness.indexedBlockTimestamp);
      return lag <= this.maxLagSeconds ? null : this.#stale(chainId, freshness, lag);
    }
    const chain = this.#chains.get(chainId);
    if (!chain) return null;
    const progress = `its index has reached block ${chain.reachedBlock} of ${chain.newestBlock}`;
    return notIndexed(`${nameOf(chainId)} is still being indexed: ${progress}.`);
  }

  #stale(chainId: number, { indexedBlock }: Freshness, lag: number): Problem {
    return new Problem(
      "stale-index",
      `${nameOf(chainId)} is indexed up to block ${indexedBlock} only, which is ${lag} s old; here at most ${this.maxLagSeconds} s are taken for current.`,
      { headers: { "Retry-After": String(INDEXING_SECONDS) } },
    );
  }
}

const nameOf = (chainId: number) => `Chain ${chainId} (${networks.get(chainId)?.name})`;

/** The newest block of a chain that is known: what the indexer has indexed may be newer than what it has noted. */
export const newestBlockOf = ({ newestBlock, freshness }: Pick<ShardChain, "newestBlock" | "freshness">): number =>
  Math.max(newestBlock, Number(freshness?.indexedBlock ?? 0));

/** How old a block is. */
export const lagSeconds = (timestamp: string): number => Math.max(0, Math.floor(Date.now() / 1000) - Number(timestamp));
