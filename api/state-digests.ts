import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import type { Database } from "./database.ts";
import { Problem } from "./problem.ts";
import type { ShardChain } from "./queries/read-shards.ts";
import { readDigests, readServedSchemas } from "./queries/state-digest.ts";
import type { Shards } from "./shards.ts";

const LOOK_MS = 5_000;
/** A digest reads all of a chain's log: not more often than this. */
const REST_MS = 600_000;

/** Deployments that are not asked at the same moment tell the same block, most of the time. */
const STEP = 1_000;

/** What is delegated on a chain at a final block, in a few digits; null for a registry that the chain does not have. */
export type StateDigest = { block: number; v1: string | null; v2: string | null };

/** What a digest is of: an index, by its schema. */
type Known = { digest: StateDigest; source: string };
type Due = { chain: ShardChain; source: string };

/** The digests of all chains, worked out in the background, one chain at a time. */
export class StateDigests {
  readonly #database: Database;
  readonly #shards: Shards;
  readonly #known = new Map<number, Known>();
  /** When a chain's was last begun, by chain and index. */
  readonly #tried = new Map<string, number>();

  constructor(database: Database, shards: Shards) {
    this.#database = database;
    this.#shards = shards;
  }

  /** The newest that is known of a chain. */
  find(chainId: number): StateDigest | null {
    return this.#known.get(chainId)?.digest ?? null;
  }

  /** Keeps them up to date until the signal is aborted. */
  async watch(signal: AbortSignal, log: Logger): Promise<void> {
    while (!signal.aborted) {
      try {
        for (const chain of await this.#findDue()) await this.#update(chain, signal);
      } catch (error) {
        if (!(error instanceof Problem) && !signal.aborted) log.error({ err: error }, "Cannot work out state digests");
      }
      await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
    }
  }

  /** The chains that have come to another block, or to another index; each for as long as it has not been tried. */
  async #findDue(): Promise<Due[]> {
    const chains = this.#shards.states().filter((chain) => blockOf(chain) > 0);
    if (chains.length === 0) return [];
    const schemas = await readServedSchemas(this.#database, [...new Set(chains.map(({ shard }) => shard))]);
    return chains.flatMap((chain) => {
      const source = schemas.get(chain.shard);
      const known = this.#known.get(chain.chainId);
      const isKnown = known?.source === source && known?.digest.block === blockOf(chain);
      const hasRested = Date.now() - (this.#tried.get(`${chain.chainId} ${source}`) ?? 0) >= REST_MS;
      return source !== undefined && !isKnown && hasRested ? { chain, source } : [];
    });
  }

  async #update({ chain, source }: Due, signal: AbortSignal): Promise<void> {
    this.#tried.set(`${chain.chainId} ${source}`, Date.now());
    const digest = await this.#workOut(chain, signal);
    // The shard may have come to show another index half-way.
    const served = await readServedSchemas(this.#database, [chain.shard]);
    if (served.get(chain.shard) === source) this.#known.set(chain.chainId, { digest, source });
  }

  async #workOut(chain: ShardChain, signal: AbortSignal): Promise<StateDigest> {
    const { shard, chainId } = chain;
    const block = blockOf(chain);
    let started = performance.now();
    /** As long as it has worked: half of a connection's time is left to others. */
    const rest = async () => {
      await sleep(performance.now() - started, undefined, { signal });
      started = performance.now();
    };
    const { v1, v2 } = await readDigests(this.#database, { shard, chainId, block }, rest);
    return { block, v1: chain.v1 && v1, v2: chain.v2 && v2 };
  }
}

/** The newest round block that is final; 0 where there is none yet, or nothing is known. */
const blockOf = ({ freshness }: ShardChain): number => {
  const final = Number(freshness?.finalizedBlock ?? 0);
  return final - (final % STEP);
};
