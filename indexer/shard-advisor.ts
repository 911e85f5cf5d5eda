import { networkName } from "../registry/networks.ts";
import type { IndexProgress } from "./shards/progress.ts";

/** Age at which a block that is not indexed makes its chain late. */
const MAX_LAG_MS = 10_000;
/** Time that chains stay late before shards are suggested. */
const PATIENCE_MS = 60_000;
const REPEAT_MS = 60 * 60_000;

type Sighting = { newest: number; at: number };

/**
 * Suggests shards when several live chains stay late together. Ponder stores the blocks of all its chains one after
 * another: the chains of a shard share the number of blocks that it stores in a second.
 */
export class ShardAdvisor {
  readonly #log: (message: string) => void;
  readonly #now: () => number;
  /** The newest blocks of each chain, from the latest that is MAX_LAG_MS old. */
  readonly #sightings = new Map<number, Sighting[]>();
  #lateSince: number | undefined;
  #suggestedAt = Number.NEGATIVE_INFINITY;

  constructor(log: (message: string) => void, now = () => performance.now()) {
    this.#log = log;
    this.#now = now;
  }

  /** Call it every few seconds with the progress of live chains. */
  check(chains: readonly IndexProgress[]): void {
    const now = this.#now();
    const late = chains.filter((chain) => this.#isLate(chain, now));
    // A single chain has a problem of its own.
    if (late.length < 2) this.#lateSince = undefined;
    else this.#lateSince ??= now;
    if (this.#lateSince === undefined || now - this.#lateSince < PATIENCE_MS || now - this.#suggestedAt < REPEAT_MS) {
      return;
    }
    this.#suggestedAt = now;
    const names = late.map(({ chainId }) => networkName(chainId)).join(", ");
    this.#log(
      `${names}: the index has been over ${MAX_LAG_MS / 1000} s late for a minute. If the RPC endpoints are not slow, one indexer has too many fast chains: split them into shards with SHARD and CHAINS (docs/indexing.md).`,
    );
  }

  #isLate({ chainId, reached, newest }: IndexProgress, now: number): boolean {
    const sightings = [...(this.#sightings.get(chainId) ?? []), { newest, at: now }];
    const old = sightings.findLastIndex(({ at }) => now - at >= MAX_LAG_MS);
    this.#sightings.set(chainId, sightings.slice(Math.max(0, old)));
    return reached < (sightings[old]?.newest ?? 0);
  }
}
