import { join } from "node:path";
import type { Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { getBlock } from "viem/actions";
import { describeError, orAborted } from "../stack/program.ts";
import { createChainClient } from "./chain-transport.ts";
import { type Heads, IndexerDatabase, IndexTakenError } from "./database.ts";
import { indexId } from "./index-id.ts";
import type { ChainPlan, IndexPlan } from "./plan.ts";
import { checkEndpoints, preparePlan } from "./prepare-plan.ts";
import type { IndexerSettings } from "./settings.ts";
import { startPonder } from "./start-ponder.ts";

const ROOT = join(import.meta.dirname, "..");

const CATCHING_UP_WATCH_MS = 500;
const WATCH_MS = 2_000;
const NEWEST_BLOCKS_MS = 5_000;
const SUMMARY_MS = 60_000;
const FIRST_RESTART_MS = 1_000;
const LONGEST_RESTART_MS = 30_000;

type Options = {
  databaseUrl: string;
  log: (message: string) => void;
  /** Where Ponder's output goes; by default to this process's own. */
  output?: Writable;
  /** Called each time the index has caught up with all its chains. */
  onReady?: (schema: string) => void;
  /** Starts Ponder again when it ends by itself. */
  restart: boolean;
  /** Ends the indexer. */
  signal: AbortSignal;
};

/** The port that Ponder listens on. It would quietly choose another one, if it is taken. */
export const indexerPort = ({ host, port }: IndexerSettings) => ({
  host,
  port,
  use: "the indexer",
  setting: "INDEXER_PORT",
});

/**
 * Runs one shard until it is stopped, or superseded by an indexer with a newer index. Throws when it
 * cannot go on.
 */
export const runIndexer = async (settings: IndexerSettings, options: Options): Promise<void> => {
  const { log, signal } = options;
  await orAborted(signal, checkEndpoints(settings.chains, log, signal));

  const database = await orAborted(signal, IndexerDatabase.connect(options.databaseUrl));
  try {
    const plan = await orAborted(signal, preparePlan(settings, database, log));
    const schema = `${settings.shard}_${indexId(plan.chains)}`;
    await database.takeIndex(settings.shard, schema);
    await keepPonderRunning(settings, plan, schema, database, options);
  } finally {
    await database.close();
  }
};

const keepPonderRunning = async (
  settings: IndexerSettings,
  plan: IndexPlan,
  schema: string,
  database: IndexerDatabase,
  options: Options,
): Promise<void> => {
  const { log, restart, signal } = options;
  const index = new ServedIndex(settings.shard, schema, plan, database, options);
  let restartMs = FIRST_RESTART_MS;
  const pause = async (reason: string) => {
    log(`${reason}; starting it again in ${restartMs / 1000} s.`);
    await sleep(restartMs, undefined, { signal }).catch(() => {});
    restartMs = Math.min(restartMs * 2, LONGEST_RESTART_MS);
  };

  while (!signal.aborted) {
    let heads: Heads;
    let isGuarded: boolean;
    try {
      isGuarded = await database.beginRun(settings.shard, schema);
      heads = await orAborted(signal, fetchHeads(plan));
      await database.noteHeads(schema, plan.chains, heads);
    } catch (error) {
      if (signal.aborted) return;
      if (!restart || error instanceof IndexTakenError) throw error;
      await pause(`The indexer cannot start: ${describeError(error)}`);
      continue;
    }

    const { host, port, logLevel } = settings;
    const { databaseUrl, output } = options;
    const logFormat = process.stdout.isTTY || output ? "pretty" : "json";
    const child = startPonder({ root: ROOT, plan, databaseUrl, schema, host, port, logLevel, logFormat, output });
    signal.addEventListener("abort", child.stop, { once: true });
    const outcome = await index.follow(child.exited, heads, isGuarded).finally(child.stop);
    const exit = await child.exited;
    signal.removeEventListener("abort", child.stop);
    if (outcome === "superseded" || signal.aborted) return;

    const reason = exit.signal ? `was ended by ${exit.signal}` : `ended with code ${exit.code}`;
    if (!restart) throw new Error(`The indexer ${reason}.`);
    if (outcome === "ended after catching up") restartMs = FIRST_RESTART_MS;
    await pause(`The indexer ${reason}`);
  }
};

const fetchHeads = async ({ chains }: IndexPlan): Promise<Heads> => new Map(await Promise.all(chains.map(fetchHead)));

const fetchHead = async ({ chainId, rpcUrls }: ChainPlan) => {
  const { number, timestamp } = await getBlock(createChainClient(chainId, rpcUrls));
  return [chainId, { number, timestamp }] as const;
};

/** The same of those chains that can be reached. */
const fetchReachableHeads = async ({ chains }: IndexPlan): Promise<Heads> => {
  const heads = await Promise.allSettled(chains.map(fetchHead));
  return new Map(heads.flatMap((head) => (head.status === "fulfilled" ? [head.value] : [])));
};

/** An index on its way into the shard's views, and out of them. */
class ServedIndex {
  readonly #shard: string;
  readonly #schema: string;
  readonly #plan: IndexPlan;
  readonly #database: IndexerDatabase;
  readonly #options: Options;
  /** Whether the views have shown it while this indexer ran. */
  #hasServed = false;
  /** When all was summed up last. */
  #summedAt = Number.NEGATIVE_INFINITY;

  constructor(shard: string, schema: string, plan: IndexPlan, database: IndexerDatabase, options: Options) {
    this.#shard = shard;
    this.#schema = schema;
    this.#plan = plan;
    this.#database = database;
    this.#options = options;
  }

  /** Follows the index while its Ponder runs. Throws an IndexTakenError when another process has it. */
  async follow(
    exited: Promise<unknown>,
    heads: Heads,
    wasGuarded: boolean,
  ): Promise<"ended" | "ended after catching up" | "superseded"> {
    const { log, onReady } = this.#options;
    const ended = new AbortController();
    exited.then(() => ended.abort());

    let hasCaughtUp = false;
    let isGuarded = wasGuarded;
    // Apart from the loop below: an RPC that does not answer must not hold it up.
    let newest: Heads | undefined;
    const watchHeads = async () => {
      while (!ended.signal.aborted) {
        await sleep(NEWEST_BLOCKS_MS, undefined, { signal: ended.signal }).catch(() => {});
        newest = await fetchReachableHeads(this.#plan);
      }
    };
    watchHeads();

    let trouble: string | undefined;
    while (!ended.signal.aborted) {
      try {
        const served = await this.#database.servedSchema(this.#shard);
        if (this.#hasServed && served !== this.#schema) {
          log(`${this.#schema} is superseded: shard "${this.#shard}" shows ${served}. Stopping.`);
          return "superseded";
        }
        // From then on each block is seen to follow the one before it.
        if (!hasCaughtUp && this.#database.isInDoubt) {
          log("The connection to the database was lost: what was stored last may be, too. Looking it up again.");
          return "ended";
        }
        if (!isGuarded) isGuarded = await this.#database.guardStore(this.#schema);
        if (!hasCaughtUp && (await this.#database.serve(this.#shard, this.#schema, heads))) {
          hasCaughtUp = true;
          this.#hasServed = true;
          onReady?.(this.#schema);
        }
        if (newest) await this.#database.noteHeads(this.#schema, this.#plan.chains, newest);
        newest = undefined;
        if (hasCaughtUp) {
          for (const dropped of await this.#database.dropSuperseded(this.#shard)) {
            log(`Dropped ${dropped}: ${this.#schema} has taken its place.`);
          }
          await this.#database.keepAnalytics();
          await this.#keepSummary();
        }
        trouble = undefined;
      } catch (error) {
        if (error instanceof IndexTakenError) throw error;
        // Once for each trouble, not with every look while it lasts.
        const message = describeError(error);
        if (message !== trouble) log(`Cannot follow the index in the database: ${message}`);
        trouble = message;
      }
      const pause = hasCaughtUp ? WATCH_MS : CATCHING_UP_WATCH_MS;
      await sleep(pause, undefined, { signal: ended.signal }).catch(() => {});
    }
    return hasCaughtUp ? "ended after catching up" : "ended";
  }

  async #keepSummary(): Promise<void> {
    if (performance.now() - this.#summedAt < SUMMARY_MS) return;
    if (await this.#database.summarise(this.#schema)) this.#summedAt = performance.now();
  }
}
