import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { networkName } from "../../registry/networks.ts";
import { BatchLoad } from "../batch.ts";
import type { Database } from "../database.ts";
import type { Limiter } from "../limits/limiter.ts";
import { type ChainState, lagSeconds, newestBlockOf, type Shards } from "../shards.ts";
import { writeHistogram } from "./tally.ts";
import { Traffic } from "./traffic.ts";

const PREFIX = "delegation_registry_";

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

/**
 * What the API process tells of itself to Prometheus. Requests only count up plain numbers; metrics are made
 * of these when somebody asks, and of what is known then: the database is not asked for them.
 */
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

  const traffic = new Traffic();
  addCounter("requests_total", "Requests that were answered.", ["route", "status"], function* () {
    for (const { route, status, count } of traffic.readCounts()) yield [count, { route, status: String(status) }];
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

  const batches = { checks: new BatchLoad(), lists: new BatchLoad(), keys: new BatchLoad() };
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

  // Memory, event loop, garbage collection: looked at now and then, and at nothing for each request.
  collectDefaultMetrics({ register: registry, prefix: PREFIX });

  const writeHistograms = () =>
    [
      writeHistogram(
        `${PREFIX}request_duration_seconds`,
        "From a request to its answer; of a long list, to its beginning.",
        "route",
        traffic.readDurations(),
      ),
      writeHistogram(
        `${PREFIX}batch_questions`,
        "Questions that were asked together, in one statement.",
        "kind",
        Object.entries(batches).map(([kind, { sizes }]) => [kind, sizes] as const),
      ),
    ].join("\n");

  return {
    traffic,
    requests,
    batches,
    contentType: registry.contentType,
    /** All of them, in the words of Prometheus. */
    write: async (): Promise<string> => `${await registry.metrics()}\n${writeHistograms()}`,
  };
};

export type Metrics = ReturnType<typeof createMetrics>;
