import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { describeError } from "../process/program.ts";
import { networkName } from "../registry/networks.ts";
import type { DeepReorgs } from "./deep-reorgs.ts";
import type { HeadFetcher } from "./fetch-heads.ts";
import type { IndexPlan } from "./plan.ts";
import { ShardAdvisor } from "./shard-advisor.ts";
import type { Head, Heads } from "./shards/heads.ts";
import { hasCaughtUp, saveHeads } from "./shards/heads.ts";
import type { IndexerDatabase } from "./shards/index-database.ts";
import { IndexTakenError } from "./shards/index-lock.ts";
import type { IndexProgress } from "./shards/progress.ts";
import { readProgress } from "./shards/progress.ts";
import { summarise } from "./shards/summarise.ts";
import { MAX_RESTARTS, StallWatch } from "./stall-watch.ts";
import type { Verifier } from "./verification/verifier.ts";

const CATCHING_UP_INTERVAL_MS = 500;
const LIVE_INTERVAL_MS = 2_000;
const HEADS_INTERVAL_MS = 15_000;
const SUMMARY_INTERVAL_MS = 60_000;

type Options = {
  shard: string;
  schema: string;
  plan: IndexPlan;
  database: IndexerDatabase;
  headFetcher: HeadFetcher;
  deepReorgs: DeepReorgs;
  verifier: Verifier;
  /** Time that the index of a chain may stand still before Ponder is restarted. */
  stallTimeoutMs: number;
  log: (message: string) => void;
  /** Called while the index catches up, at most twice a second. */
  onProgress?: ((chains: readonly IndexProgress[]) => Promise<void>) | undefined;
  /** Called each time the index has caught up with all its chains. */
  onReady?: ((schema: string) => void) | undefined;
};

type Outcome = "ended" | "ended after catching up" | "stalled" | "superseded";

/** One run of Ponder. */
type Run = {
  /** The chains' newest blocks when Ponder started. */
  startHeads: Heads;
  /** True once Postgres confirms commits only when they are durable. */
  isGuarded: boolean;
  /** True once the views show the index. */
  isServed: boolean;
  /** True once the index has caught up with all its chains. */
  hasCaughtUp: boolean;
  /** The chains' newest blocks, not stored yet. */
  newHeads: Map<number, Head>;
};

/** Follows an index through Ponder's runs: serves it when it has caught up, and maintains its summary. */
export class IndexFollower {
  readonly #options: Options;
  readonly #stalls: StallWatch;
  readonly #shardAdvisor: ShardAdvisor;
  /** True once this indexer has served the index. */
  #hasServed = false;
  /** When the summary was last complete. */
  #summarisedAt = Number.NEGATIVE_INFINITY;

  constructor(options: Options) {
    this.#options = options;
    this.#stalls = new StallWatch(options.stallTimeoutMs);
    this.#shardAdvisor = new ShardAdvisor(options.log);
  }

  /** Follows one run of Ponder. Throws an IndexTakenError if another process has taken the index. */
  async follow(exited: Promise<unknown>, startHeads: Heads, isGuarded: boolean): Promise<Outcome> {
    const ended = new AbortController();
    exited.then(() => ended.abort());
    // Each chain waits for it.
    setMaxListeners(this.#options.plan.chains.length + 1, ended.signal);
    const run: Run = { startHeads, isGuarded, isServed: false, hasCaughtUp: false, newHeads: new Map() };
    // Not awaited: an RPC that does not answer must not delay the loop below, nor the heads of other chains.
    for (const { chainId } of this.#options.plan.chains) this.#watchHead(run, chainId, ended.signal);

    let lastFailure: string | undefined;
    while (!ended.signal.aborted) {
      try {
        const outcome = await this.#update(run, ended.signal);
        if (outcome) return outcome;
        lastFailure = undefined;
      } catch (error) {
        if (error instanceof IndexTakenError) throw error;
        const failure = describeError(error);
        // Log a lasting failure once.
        if (failure !== lastFailure) this.#options.log(`Cannot follow the index in the database: ${failure}`);
        lastFailure = failure;
      }
      await pause(run.hasCaughtUp ? LIVE_INTERVAL_MS : CATCHING_UP_INTERVAL_MS, ended.signal);
    }
    return run.hasCaughtUp ? "ended after catching up" : "ended";
  }

  async #watchHead(run: Run, chainId: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(HEADS_INTERVAL_MS, signal);
      // The head of an unreachable chain keeps the time at which it was seen.
      const head = await this.#options.headFetcher.fetch(chainId).catch(() => undefined);
      if (head) run.newHeads.set(chainId, head);
    }
  }

  /** @returns an outcome if the run has to end */
  async #update(run: Run, signal: AbortSignal): Promise<Outcome | undefined> {
    const { shard, schema, plan, database, verifier, log } = this.#options;
    const served = await database.findServedSchema(shard);
    if (this.#hasServed && served !== schema) {
      log(`${schema} is superseded: shard "${shard}" shows ${served}. Stopping.`);
      return "superseded";
    }
    // Afterwards newest-block.ts detects missing rows: each block has to follow the one before it.
    if (!run.isServed && database.hasLostConnection) {
      log("The connection to the database was lost: the newest rows may be missing. Restarting from the stored rows.");
      return "ended";
    }
    if (!run.isGuarded) run.isGuarded = await database.guardCommits(schema);
    const { newHeads } = run;
    run.newHeads = new Map();
    if (newHeads.size > 0) await saveHeads(database.connection, schema, plan.chains, newHeads);
    const difference = await verifier.update(performance.now(), signal);
    if (difference) {
      log(difference);
      return "stalled";
    }
    if (!run.hasCaughtUp) await this.#serve(run, served);
    if (!run.isServed) return undefined;
    await this.#maintain();
    return this.#findReasonToRestart(newHeads);
  }

  async #serve(run: Run, served: string | null): Promise<void> {
    const { shard, schema, database, verifier, onProgress, onReady } = this.#options;
    await onProgress?.(await readProgress(database.connection, schema));
    // Another index is served until this one is proven. Without one, each chain appears when it is.
    const mayServe = verifier.isSettled || served === null || served === schema;
    if (!run.isServed && mayServe && (await database.serve(shard, schema, run.startHeads))) {
      run.isServed = true;
      this.#hasServed = true;
      this.#stalls.startRun(performance.now());
    }
    if (!run.isServed || !verifier.isSettled || !(await hasCaughtUp(database.connection, schema, run.startHeads)))
      return;
    run.hasCaughtUp = true;
    // Before, chains without an indexed block had nothing to summarise.
    this.#summarisedAt = Number.NEGATIVE_INFINITY;
    onReady?.(schema);
  }

  async #findReasonToRestart(newHeads: Heads): Promise<Outcome | undefined> {
    const { schema, stallTimeoutMs, database, deepReorgs, log } = this.#options;
    const now = performance.now();
    const replaced = await deepReorgs.check(newHeads, now);
    if (replaced) {
      log(`${replaced}: a reorg was deeper than final.`);
      return "stalled";
    }
    const progress = await readProgress(database.connection, schema);
    this.#shardAdvisor.check(progress);
    const stalled = this.#stalls.findStalled(progress, newHeads, now);
    if (!stalled) return undefined;
    const { chainId, reached, restarts } = stalled;
    await database.countRestart(schema, chainId);
    const minutes = Math.round((stallTimeoutMs * 2 ** (restarts - 1)) / 6000) / 10;
    log(
      `${networkName(chainId)}: the index has been at block ${reached} for ${minutes} min, and the chain has newer blocks. Restarting Ponder (${restarts} of ${MAX_RESTARTS} attempts).`,
    );
    return "stalled";
  }

  async #maintain(): Promise<void> {
    const { shard, schema, database, log } = this.#options;
    for (const dropped of await database.dropSuperseded(shard)) log(`Dropped ${dropped}: ${schema} has replaced it.`);
    await database.updateAnalytics();
    if (performance.now() - this.#summarisedAt < SUMMARY_INTERVAL_MS) return;
    if (await summarise(database.connection, schema)) this.#summarisedAt = performance.now();
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> => sleep(ms, undefined, { signal }).catch(() => {});
