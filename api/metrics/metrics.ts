import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { networkName } from "../../registry/networks.ts";
import { BatchLoad, LARGEST_BATCH } from "../batch.ts";
import type { Database } from "../database.ts";
import type { Limiter } from "../limits/limiter.ts";
import { PROBLEMS } from "../problem.ts";
import { type ChainState, lagSeconds, newestBlockOf, type Shards } from "../shards.ts";

const PREFIX = "delegation_registry_";

/** In seconds: from half a millisecond, which is what a check takes, to longer than any request may. */
const DURATIONS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Told from the start, as 0: Prometheus misses the first of what was not there before. */
const STATUSES = new Set<number>([200, 204, ...Object.values(PROBLEMS).map(({ status }) => status)]);

export type Measured = {
  /** Where answers come from. */
  database: Database;
  /** Where keys are, which may be the same. */
  primary: Database;
  shards: Shards;
  limiter: Limiter;
  version: string;
};

/** A value and what it is a value of. */
type Reading = readonly [value: number, labels?: Record<string, string>];

/** What the API process tells of itself to Prometheus: of what is known, without asking the database. */
export const createMetrics = ({ database, primary, shards, limiter, version }: Measured) => {
  const registry = new Registry();
  const registers = [registry];
  const addGauge = (name: string, help: string, labelNames: string[], read: () => Iterable<Reading>) =>
    new Gauge({
      name: PREFIX + name,
      help,
      labelNames,
      registers,
      collect() {
        this.reset();
        for (const [value, labels = {}] of read()) this.set(labels, value);
      },
    });
  const addCounter = (name: string, help: string, labelNames: string[], read: () => Iterable<Reading>) =>
    new Counter({
      name: PREFIX + name,
      help,
      labelNames,
      registers,
      collect() {
        this.reset();
        for (const [value, labels = {}] of read()) this.inc(labels, value);
      },
    });

  addGauge("build_info", "What is running: always 1.", ["version", "node"], () => [
    [1, { version, node: process.versions.node }],
  ]);

  const answered = new Counter({
    name: `${PREFIX}requests_total`,
    help: "Requests that were answered.",
    labelNames: ["route", "status"],
    registers,
  });
  const durations = new Histogram({
    name: `${PREFIX}request_duration_seconds`,
    help: "From a request to its answer; of a long list, to its beginning.",
    labelNames: ["route"],
    buckets: DURATIONS,
    registers,
  });

  const requests = { keyed: 0, admitted: 0, refused: 0 };
  addCounter(
    "rate_limit_requests_total",
    "Requests to /registry: with a known key, without one and admitted, or refused.",
    ["outcome"],
    () => Object.entries(requests).map(([outcome, count]) => [count, { outcome }]),
  );
  addGauge("rate_limit_clients", "Clients whose requests this process remembers.", [], () => [
    [limiter.countClients()],
  ]);
  if (limiter.isShared() !== null) {
    addGauge(
      "rate_limit_shared",
      "1 while all processes limit together, 0 while their store is out of reach and each limits by itself.",
      [],
      () => [[limiter.isShared() ? 1 : 0]],
    );
  }

  const batchSizes = new Histogram({
    name: `${PREFIX}batch_questions`,
    help: "Questions that were asked together, in one statement.",
    labelNames: ["kind"],
    buckets: [1, 2, 4, 8, 16, LARGEST_BATCH],
    registers,
  });
  const loadOf = (kind: string) => {
    batchSizes.zero({ kind });
    const sizes = batchSizes.labels(kind);
    return new BatchLoad((size) => sizes.observe(size));
  };
  const batches = { checks: loadOf("checks"), lists: loadOf("lists"), keys: loadOf("keys") };
  addGauge("questions_waiting", "Questions that wait to be asked of the database.", ["kind"], () =>
    Object.entries(batches).map(([kind, { waiting }]) => [waiting, { kind }]),
  );

  const databases = Object.entries({ primary, ...(database !== primary && { replica: database }) });
  const pools = () =>
    databases.flatMap(([name, each]) =>
      each.pools().map(({ pool, ...load }) => ({ ...load, of: { database: name, pool } })),
    );
  addGauge("database_reachable", "1 while a database answers, else 0.", ["database"], () =>
    databases.map(([name, { isReachable }]) => [isReachable ? 1 : 0, { database: name }]),
  );
  addGauge("pool_connections", "Connections to a database.", ["database", "pool", "state"], () =>
    pools().flatMap(({ of, busy, idle }) => [
      [busy, { ...of, state: "busy" }],
      [idle, { ...of, state: "idle" }],
    ]),
  );
  addGauge("pool_connections_limit", "Connections that a pool may have.", ["database", "pool"], () =>
    pools().map(({ of, limit }) => [limit, of]),
  );
  addGauge("pool_waiting", "Statements that wait for a connection.", ["database", "pool"], () =>
    pools().map(({ of, waiting }) => [waiting, of]),
  );

  addGauge("shard_started", "1 when a shard has said what it indexes, else 0.", ["shard"], () =>
    shards.shardStates().map(({ shard, isStarted }) => [isStarted ? 1 : 0, { shard }]),
  );
  addGauge("shard_served", "1 when a shard has an index to answer from, else 0.", ["shard"], () =>
    shards.shardStates().map(({ shard, isServed }) => [isServed ? 1 : 0, { shard }]),
  );

  /** Of each chain; null where there is nothing to say. */
  const addChainGauge = (name: string, help: string, read: (chain: ChainState) => number | null) =>
    addGauge(`chain_${name}`, help, ["chain_id", "chain", "shard"], function* () {
      for (const state of shards.states()) {
        const { chainId, shard } = state;
        const value = read(state);
        const chain = networkName(chainId);
        if (value !== null) yield [value, { chain_id: String(chainId), chain, shard }];
      }
    });
  addChainGauge("answered", "1 while questions about a chain are answered, 0 while they are a 503.", ({ why }) =>
    database.isReachable && why === null ? 1 : 0,
  );
  addChainGauge("indexed_block", "The newest block that answers include.", ({ freshness }) =>
    freshness ? Number(freshness.indexedBlock) : null,
  );
  addChainGauge("reached_block", "How far the index of a chain has come, also while it is being built.", (chain) =>
    Number(chain.freshness?.indexedBlock ?? chain.reachedBlock),
  );
  addChainGauge("newest_block", "The newest block of a chain that its indexer knows.", newestBlockOf);
  addChainGauge("lag_seconds", "How old the newest block is that answers include.", ({ freshness }) =>
    freshness ? lagSeconds(freshness.indexedBlockTimestamp) : null,
  );
  addGauge("max_index_lag_seconds", "The lag beyond which a chain is not answered for: a setting.", [], () => [
    [shards.maxLagSeconds],
  ]);

  // Memory, event loop, garbage collection.
  collectDefaultMetrics({ register: registry, prefix: PREFIX });

  return {
    requests,
    batches,
    /**
     * What counts the requests of a route. To find the series of its labels takes longer than to count: that is done once.
     * @param route - a pattern, never a URL
     */
    addRoute: (route: string) => {
      durations.zero({ route });
      const duration = durations.labels(route);
      const counters = new Map<number, Counter.Internal>();
      const counterOf = (status: number) => {
        const counter = counters.get(status) ?? answered.labels({ route, status });
        counters.set(status, counter);
        return counter;
      };
      for (const status of STATUSES) counterOf(status).inc(0);
      return (status: number, seconds: number) => {
        counterOf(status).inc();
        duration.observe(seconds);
      };
    },
    contentType: registry.contentType,
    /** All of them, in the words of Prometheus. */
    write: () => registry.metrics(),
  };
};

export type Metrics = ReturnType<typeof createMetrics>;
