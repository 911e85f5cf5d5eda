import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import type { Database } from "../database/database.ts";
import { Problem } from "../problem.ts";
import type { ShardChain } from "../shards/read-shards.ts";
import type { Shards } from "../shards/shards.ts";
import { readDigests, readServedSchemas } from "./read-state-digest.ts";

const POLL_MS = 5_000;
/** Minimum time between digests of a chain: each one reads the whole log. */
const INTERVAL_MS = 600_000;

/** Digests are of blocks that are multiples of this, so that deployments usually publish the same block. */
const BLOCK_STEP = 1_000;

/** Hashes of a chain's delegations at a final block; null for a registry that the chain does not have. */
export type StateDigest = { block: number; v1: string | null; v2: string | null };

/** A digest and the schema of its index. */
type KnownDigest = { digest: StateDigest; schema: string };
type DueChain = { chain: ShardChain; schema: string };

/** Computes the digests of all chains in the background, one chain at a time. */
export class StateDigests {
  readonly #database: Database;
  readonly #shards: Shards;
  readonly #known = new Map<number, KnownDigest>();
  /** Start of the last attempt, by chain and schema. */
  readonly #startedAt = new Map<string, number>();

  constructor(database: Database, shards: Shards) {
    this.#database = database;
    this.#shards = shards;
  }

  /** Finds the newest digest of a chain. */
  find(chainId: number): StateDigest | null {
    return this.#known.get(chainId)?.digest ?? null;
  }

  /** Keeps the digests up to date until the signal is aborted. */
  async watch(signal: AbortSignal, log: Logger): Promise<void> {
    while (!signal.aborted) {
      try {
        for (const due of await this.#findDue()) await this.#update(due, signal);
      } catch (error) {
        if (!(error instanceof Problem) && !signal.aborted) log.error({ err: error }, "Cannot compute state digests");
      }
      await sleep(POLL_MS, undefined, { signal }).catch(() => {});
    }
  }

  /** Finds the chains with a new block or a new index whose last attempt is long enough ago. */
  async #findDue(): Promise<DueChain[]> {
    const chains = this.#shards.chainStates().filter((chain) => digestBlock(chain) > 0);
    if (chains.length === 0) return [];
    const schemas = await readServedSchemas(this.#database, [...new Set(chains.map(({ shard }) => shard))]);
    return chains.flatMap((chain) => {
      const schema = schemas.get(chain.shard);
      const known = this.#known.get(chain.chainId);
      const isKnown = known?.schema === schema && known?.digest.block === digestBlock(chain);
      const hasWaited = Date.now() - (this.#startedAt.get(`${chain.chainId} ${schema}`) ?? 0) >= INTERVAL_MS;
      return schema !== undefined && !isKnown && hasWaited ? { chain, schema } : [];
    });
  }

  async #update({ chain, schema }: DueChain, signal: AbortSignal): Promise<void> {
    this.#startedAt.set(`${chain.chainId} ${schema}`, Date.now());
    const digest = await this.#compute(chain, signal);
    // The shard may have switched to another index in between.
    const served = await readServedSchemas(this.#database, [chain.shard]);
    if (served.get(chain.shard) === schema) this.#known.set(chain.chainId, { digest, schema });
  }

  async #compute(chain: ShardChain, signal: AbortSignal): Promise<StateDigest> {
    const { shard, chainId } = chain;
    const block = digestBlock(chain);
    let statementStart = performance.now();
    /** Sleeps as long as the statement took, to leave half of a connection's time to others. */
    const rest = async () => {
      await sleep(performance.now() - statementStart, undefined, { signal });
      statementStart = performance.now();
    };
    const { v1, v2 } = await readDigests(this.#database, { shard, chainId, block }, rest);
    return { block, v1: chain.v1 && v1, v2: chain.v2 && v2 };
  }
}

/** Returns the newest final multiple of BLOCK_STEP; 0 if there is none yet. */
const digestBlock = ({ freshness }: ShardChain): number => {
  const final = Number(freshness?.finalizedBlock ?? 0);
  return final - (final % BLOCK_STEP);
};
