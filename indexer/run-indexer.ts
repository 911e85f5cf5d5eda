import { join } from "node:path";
import type { Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { describeError, type Log, rejectOnAbort } from "../process/program.ts";
import { checkHistory } from "./check-history.ts";
import { DeepReorgs } from "./deep-reorgs.ts";
import { HeadFetcher } from "./fetch-heads.ts";
import { IndexFollower } from "./follow-index.ts";
import { computeIndexId } from "./index-id.ts";
import type { IndexPlan } from "./plan.ts";
import { checkEndpoints, preparePlan } from "./prepare-plan.ts";
import type { IndexerSettings } from "./settings.ts";
import { startEndingLongReaders } from "./shards/end-long-readers.ts";
import type { Heads } from "./shards/heads.ts";
import { saveHeads } from "./shards/heads.ts";
import { IndexerDatabase } from "./shards/index-database.ts";
import { IndexTakenError } from "./shards/index-lock.ts";
import type { IndexProgress } from "./shards/progress.ts";
import { readProgress } from "./shards/progress.ts";
import { startPonder } from "./start-ponder.ts";
import { Verifier } from "./verification/verifier.ts";

const ROOT = join(import.meta.dirname, "..");

const FIRST_RESTART_MS = 1_000;
const MAX_RESTART_MS = 30_000;

type Options = {
  databaseUrl: string;
  log: Log;
  /** Receives Ponder's output; by default this process's own. */
  output?: Writable | undefined;
  /** Format of Ponder's output; by default "pretty" for a terminal and for `output`. */
  logFormat?: "pretty" | "json";
  /** Called while the index catches up, at most twice a second. */
  onProgress?: ((chains: readonly IndexProgress[]) => Promise<void>) | undefined;
  /** Called each time the index has caught up with all its chains. */
  onReady?: (schema: string) => void;
  /** Restarts Ponder when it exits. */
  restart: boolean;
  /** Stops the indexer. */
  signal: AbortSignal;
};

/** Ponder's port. If it is in use, Ponder silently chooses another one. */
export const indexerPort = ({ host, port }: IndexerSettings) => ({
  host,
  port,
  use: "the indexer",
  setting: "INDEXER_PORT",
});

/** Runs one shard until it is stopped, or superseded by an indexer with a newer index. Throws if it cannot continue. */
export const runIndexer = async (settings: IndexerSettings, options: Options): Promise<void> => {
  const { log, signal } = options;
  await rejectOnAbort(signal, checkEndpoints(settings.chains, log, signal));

  const { databaseUrl } = options;
  const readers = startEndingLongReaders({ databaseUrl, maxSeconds: settings.analystMaxSeconds, log });
  let database: IndexerDatabase | undefined;
  try {
    database = await rejectOnAbort(signal, IndexerDatabase.connect(databaseUrl));
    await indexShard(settings, database, options);
  } finally {
    // Together: a database that does not respond delays the end only once.
    await Promise.all([database?.close(), readers.stop()]);
  }
};

const indexShard = async (settings: IndexerSettings, database: IndexerDatabase, options: Options): Promise<void> => {
  const { log, signal } = options;
  const prepared = await rejectOnAbort(signal, preparePlan(settings, database, log));
  const schema = `${settings.shard}_${computeIndexId(prepared.chains)}`;
  await database.takeIndex(settings.shard, schema);
  const progress = await readProgress(database.connection, schema);
  const plan = await rejectOnAbort(signal, checkHistory(prepared, progress, log, signal));
  const headFetcher = new HeadFetcher(plan);
  const deepReorgs = new DeepReorgs({ schema, plan, database, headFetcher, log });
  const { verificationRequestsPerDay: requestsPerDay } = settings;
  const verifier = new Verifier({ schema, plan, database, requestsPerDay, log });
  await keepPonderRunning({ settings, plan, schema, database, headFetcher, deepReorgs, verifier, options });
};

type Index = {
  settings: IndexerSettings;
  plan: IndexPlan;
  schema: string;
  database: IndexerDatabase;
  headFetcher: HeadFetcher;
  deepReorgs: DeepReorgs;
  verifier: Verifier;
  options: Options;
};

const keepPonderRunning = async (index: Index): Promise<void> => {
  const { settings, plan, schema, database, headFetcher, deepReorgs, verifier, options } = index;
  const { log, onProgress, onReady, restart, signal } = options;
  const follower = new IndexFollower({
    shard: settings.shard,
    schema,
    plan,
    database,
    headFetcher,
    deepReorgs,
    verifier,
    stallTimeoutMs: settings.stallTimeoutMs,
    log,
    onProgress,
    onReady,
  });
  let restartMs = FIRST_RESTART_MS;
  const waitToRestart = async (reason: string) => {
    log(`${reason}; starting it again in ${restartMs / 1000} s.`);
    await sleep(restartMs, undefined, { signal }).catch(() => {});
    restartMs = Math.min(restartMs * 2, MAX_RESTART_MS);
  };

  while (!signal.aborted) {
    let start: RunStart;
    try {
      start = await prepareRun(index);
    } catch (error) {
      if (signal.aborted) return;
      if (!restart || error instanceof IndexTakenError) throw error;
      await waitToRestart(`The indexer cannot start: ${describeError(error)}`);
      continue;
    }

    const { outcome, exit } = await runPonder(index, follower, start);
    if (outcome === "superseded" || signal.aborted) return;

    const reason = exit.signal ? `was ended by ${exit.signal}` : `ended with code ${exit.code}`;
    if (!restart) throw new Error(`The indexer ${reason}.`);
    if (outcome !== "ended") restartMs = FIRST_RESTART_MS;
    await waitToRestart(`The indexer ${reason}`);
  }
};

type RunStart = { heads: Heads; plan: IndexPlan; isGuarded: boolean };

const prepareRun = async (index: Index): Promise<RunStart> => {
  const { settings, plan, schema, database, headFetcher, deepReorgs, verifier, options } = index;
  const isGuarded = await database.beginRun(settings.shard, schema);
  const heads = await rejectOnAbort(options.signal, headFetcher.fetchAll());
  await rejectOnAbort(options.signal, deepReorgs.rewind(heads));
  await rejectOnAbort(options.signal, verifier.repair(performance.now()));
  await saveHeads(database.connection, schema, plan.chains, heads);
  await database.serveFromHeads(schema);
  const progress = await readProgress(database.connection, schema);
  return { heads, plan: verifier.planRun(heads, progress), isGuarded };
};

/** Runs Ponder until it exits, or has to. */
const runPonder = async (index: Index, follower: IndexFollower, { heads, plan, isGuarded }: RunStart) => {
  const { settings, schema, options } = index;
  const { host, port, logLevel } = settings;
  const { databaseUrl, output, signal } = options;
  const { logFormat = process.stdout.isTTY || output ? "pretty" : "json" } = options;
  const child = startPonder({ root: ROOT, plan, databaseUrl, schema, host, port, logLevel, logFormat, output });
  signal.addEventListener("abort", child.stop, { once: true });
  const outcome = await follower.follow(child.exited, heads, isGuarded).finally(child.stop);
  const exit = await child.exited;
  signal.removeEventListener("abort", child.stop);
  return { outcome, exit };
};
