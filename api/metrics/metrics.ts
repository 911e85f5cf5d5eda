import type { Counter } from "prom-client";
import { networkName } from "../../registry/networks.ts";
import { BatchLoad, MAX_BATCH_SIZE } from "../database/batch-queue.ts";
import type { Database } from "../database/database.ts";
import type { Limiter } from "../limits/shared-window.ts";
import { PROBLEMS } from "../problem.ts";
import { type ChainState, newestKnownBlock, type Shards } from "../shards/shards.ts";
import { MetricRegistry, type ReadValues } from "./metric-registry.ts";

/** Buckets in seconds: from half a millisecond, the duration of a check, to longer than any request may take. */
const DURATIONS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Statuses whose counters start at 0: Prometheus misses the first increment of a series that appears with it. */
const STATUSES = new Set<number>([200, 204, ...Object.values(PROBLEMS).map(({ status }) => status)]);

type MeasuredParts = {
  /** Has the indexes. */
  database: Database;
  /** Has API keys; may be the same database. */
  primary: Database;
  shards: Shards;
  limiter: Limiter;
  version: string;
};

/** Creates the API's Prometheus metrics. A scrape reads state in memory, and never the database. */
export const createMetrics = ({ database, primary, shards, limiter, version }: MeasuredParts) => {
  const registry = new MetricRegistry();
  registry.addGauge("build_info", "The running version: always 1.", ["version", "node"], () => [
    [1, { version, node: process.versions.node }],
  ]);
  const addRoute = addRequestMetrics(registry);
  const requests = addLimitMetrics(registry, limiter);
  const turns = { waiting: 0 };
  registry.addGauge("requests_waiting", "Requests that wait for their caller's turn.", [], () => [[turns.waiting, {}]]);
  const changes = addChangeMetrics(registry);
  const proofs = addProofMetrics(registry);
  const webhooks = addWebhookMetrics(registry);
  const batches = addBatchMetrics(registry);
  addDatabaseMetrics(registry, { primary, ...(database !== primary && { replica: database }) });
  addShardMetrics(registry, shards, database);
  registry.addProcessMetrics();
  return {
    addRoute,
    requests,
    turns,
    changes,
    proofs,
    webhooks,
    batches,
    contentType: registry.contentType,
    write: () => registry.metrics(),
  };
};

export type Metrics = ReturnType<typeof createMetrics>;

const addRequestMetrics = (registry: MetricRegistry) => {
  const counts = registry.createCounter("requests_total", "Answered requests.", ["route", "status"]);
  const durations = registry.createHistogram(
    "request_duration_seconds",
    "Time from a request to its response; for a long list, to its first byte.",
    "route",
    DURATIONS,
  );

  /**
   * Creates a function that counts the requests of a route. Looks the series of its labels up once, which takes longer
   * than counting.
   * @param route - a pattern, never a URL
   */
  return (route: string) => {
    durations.zero({ route });
    const duration = durations.labels(route);
    const counters = new Map<number, Counter.Internal>();
    const findCounter = (status: number) => {
      const counter = counters.get(status) ?? counts.labels({ route, status });
      counters.set(status, counter);
      return counter;
    };
    for (const status of STATUSES) findCounter(status).inc(0);
    return (status: number, seconds: number) => {
      findCounter(status).inc();
      duration.observe(seconds);
    };
  };
};

const addLimitMetrics = (registry: MetricRegistry, limiter: Limiter) => {
  const requests = { keyed: 0, admitted: 0, refused: 0 };
  registry.addCounter(
    "rate_limit_requests_total",
    "Requests that count: with a known key, admitted without one, or refused.",
    ["outcome"],
    () => Object.entries(requests).map(([outcome, count]) => [count, { outcome }]),
  );
  registry.addGauge("rate_limit_clients", "Clients in this process's memory.", [], () => [[limiter.size]]);
  if ("isShared" in limiter) {
    registry.addGauge(
      "rate_limit_shared",
      "1 while all processes share one limit, 0 while their store is unreachable and each applies its own.",
      [],
      () => [[limiter.isShared ? 1 : 0]],
    );
  }
  return requests;
};

const addBatchMetrics = (registry: MetricRegistry) => {
  const sizes = registry.createHistogram("batch_questions", "Questions per batch, which is one statement.", "kind", [
    1,
    2,
    4,
    8,
    16,
    MAX_BATCH_SIZE,
  ]);
  const createLoad = (kind: string) => {
    sizes.zero({ kind });
    const sizesOfKind = sizes.labels(kind);
    return new BatchLoad((size) => sizesOfKind.observe(size));
  };
  const batches = { checks: createLoad("checks"), lists: createLoad("lists"), keys: createLoad("keys") };
  registry.addGauge("questions_waiting", "Questions in the queue for a batch.", ["kind"], () =>
    Object.entries(batches).map(([kind, { waiting }]) => [waiting, { kind }]),
  );
  return batches;
};

const addChangeMetrics = (registry: MetricRegistry) => {
  const changes = {
    countReaders: () => 0,
    countBehind: () => 0,
    /** When the log was last read for the readers, or the first of them came; null without readers. */
    readAt: null as number | null,
    drops: 0,
  };
  registry.addGauge("changes_readers", "Open streams of changes.", [], () => [[changes.countReaders()]]);
  registry.addGauge("changes_readers_behind", "Open streams that have not sent all changes that there are.", [], () => [
    [changes.countBehind()],
  ]);
  registry.addGauge("changes_lag_seconds", "Time since the log was last read for streams; 0 without any.", [], () => [
    [changes.readAt === null ? 0 : (performance.now() - changes.readAt) / 1000],
  ]);
  registry.addCounter("changes_drops_total", "Streams that were cut off because nobody read them.", [], () => [
    [changes.drops],
  ]);
  return changes;
};

const addProofMetrics = (registry: MetricRegistry) => {
  const proofs = { proven: 0, unavailable: 0, differs: 0 };
  registry.addCounter(
    "proofs_total",
    "Answers that were proven, that no node proved, or that a proof contradicted.",
    ["outcome"],
    () => Object.entries(proofs).map(([outcome, count]) => [count, { outcome }]),
  );
  return proofs;
};

const addWebhookMetrics = (registry: MetricRegistry) => {
  const webhooks = {
    /** By state; null in a process that does not send messages. */
    webhooks: null as { active: number; failing: number; paused: number } | null,
    lagSeconds: { operator: 0, wallet: 0 },
    deliveries: { delivered: 0, refused: 0, unanswered: 0 },
  };
  registry.addGauge("webhooks", "Webhooks by state, in the process that sends their messages.", ["state"], () =>
    Object.entries(webhooks.webhooks ?? {}).map(([state, count]) => [count, { state }]),
  );
  registry.addGauge(
    "webhook_lag_seconds",
    "Longest time that the next message of a webhook has waited, by who made it.",
    ["owner"],
    () => Object.entries(webhooks.lagSeconds).map(([owner, seconds]) => [seconds, { owner }]),
  );
  registry.addCounter(
    "webhook_deliveries_total",
    "Attempts to deliver a message: delivered, refused with another status than 2xx, or unanswered.",
    ["outcome"],
    () => Object.entries(webhooks.deliveries).map(([outcome, count]) => [count, { outcome }]),
  );
  return webhooks;
};

const addDatabaseMetrics = (registry: MetricRegistry, databasesByName: Record<string, Database>): void => {
  const databases = Object.entries(databasesByName);
  const readPools = () =>
    databases.flatMap(([name, each]) =>
      each.poolStates().map(({ pool, ...state }) => ({ ...state, labels: { database: name, pool } })),
    );
  registry.addGauge("database_reachable", "1 while a database answers, else 0.", ["database"], () =>
    databases.map(([name, { isReachable }]) => [isReachable ? 1 : 0, { database: name }]),
  );
  registry.addGauge("pool_connections", "Connections to a database.", ["database", "pool", "state"], () =>
    readPools().flatMap(({ labels, busy, idle }) => [
      [busy, { ...labels, state: "busy" }],
      [idle, { ...labels, state: "idle" }],
    ]),
  );
  registry.addGauge("pool_connections_limit", "Maximum connections of a pool.", ["database", "pool"], () =>
    readPools().map(({ labels, limit }) => [limit, labels]),
  );
  registry.addGauge("pool_waiting", "Statements that wait for a connection.", ["database", "pool"], () =>
    readPools().map(({ labels, waiting }) => [waiting, labels]),
  );
};

const CHAIN_LABELS = ["chain_id", "chain", "shard"];

const addShardMetrics = (registry: MetricRegistry, shards: Shards, database: Database): void => {
  registry.addGauge("shard_started", "1 when a shard has registered its chains, else 0.", ["shard"], () =>
    shards.shardStates().map(({ shard, isStarted }) => [isStarted ? 1 : 0, { shard }]),
  );
  registry.addGauge("shard_served", "1 when a shard has an index to answer from, else 0.", ["shard"], () =>
    shards.shardStates().map(({ shard, isServed }) => [isServed ? 1 : 0, { shard }]),
  );

  /** @param read - returns null for a chain without this value */
  const readChains = (read: (chain: ChainState) => number | null) =>
    function* (): ReturnType<ReadValues> {
      for (const state of shards.chainStates()) {
        const { chainId, shard } = state;
        const value = read(state);
        const chain = networkName(chainId);
        if (value !== null) yield [value, { chain_id: String(chainId), chain, shard }];
      }
    };
  const addChainGauge = (name: string, help: string, read: (chain: ChainState) => number | null) =>
    registry.addGauge(`chain_${name}`, help, CHAIN_LABELS, readChains(read));
  addChainGauge("answered", "1 while the API answers for a chain, 0 while requests get a 503.", ({ notReadyReason }) =>
    database.isReachable && notReadyReason === null ? 1 : 0,
  );
  addChainGauge("indexed_block", "The newest block that answers include.", ({ freshness }) =>
    freshness ? Number(freshness.indexedBlock) : null,
  );
  addChainGauge("reached_block", "Progress of the index of a chain, also during a backfill.", (chain) =>
    Number(chain.freshness?.indexedBlock ?? chain.reachedBlock),
  );
  addChainGauge("newest_block", "The newest block of a chain that its indexer knows.", newestKnownBlock);
  registry.addCounter(
    "chain_restarts_total",
    "Restarts of Ponder because the index of a chain did not move.",
    CHAIN_LABELS,
    readChains(({ restarts }) => restarts),
  );
  addChainGauge(
    "verified_block",
    "The block up to which changed wallets agree with the registries.",
    (chain) => chain.verification.block,
  );
  registry.addCounter(
    "chain_verified_wallets_total",
    "Comparisons of a wallet with the registries that agreed.",
    CHAIN_LABELS,
    readChains(({ verification }) => verification.wallets),
  );
  addChainGauge(
    "verified_timestamp_seconds",
    "When wallets of a chain were last compared.",
    ({ verification }) => verification.at && verification.at.getTime() / 1000,
  );
  addChainGauge("differs", "1 while the index of a chain differs from the registries, else 0.", ({ verification }) =>
    Number(verification.difference !== null),
  );
  addChainGauge("lag_seconds", "Maximum time that answers are behind a chain.", ({ lagSeconds }) => lagSeconds);
  registry.addGauge("max_index_lag_seconds", "The setting MAX_INDEX_LAG_SECONDS.", [], () => [[shards.maxLagSeconds]]);
};
