import { availableParallelism } from "node:os";
import pg from "pg";
import { startReplicatedPostgres } from "../test/support/replicated-postgres.ts";
import { waitUntil } from "../test/support/setup.ts";
import { compare } from "./comparison.ts";
import { createDataSets } from "./data-set.ts";
import { CONNECTIONS, compareThroughput, costOf, figuresOf, type Timing } from "./http.ts";
import type { Case } from "./report.ts";
import { type Figures, Rounds, type Subject } from "./rounds.ts";
import { createKey, HIGH_RATE_LIMIT, Servers } from "./servers.ts";
import { checkSubject, getCheck } from "./subjects.ts";

// Measures what further API processes and a replica bring, and how large an index is. docs/scaling.md computes with it.

type ScalePlan = Timing & {
  databaseUrl: string;
  /** Delegations in each registry of the database. */
  delegations: number;
  log: (message: string) => void;
};

const ofWallet = getCheck("v2", "all");
const MOST_PROCESSES = 8;

export const measureScale = async (plan: ScalePlan): Promise<Case[]> => [
  ...(await measureProcesses(plan)),
  await measureReplica(plan),
  await measureSize(plan),
];

/** Compares several API processes with one, over the same number of connections. */
const measureProcesses = async (plan: ScalePlan): Promise<Case[]> => {
  const { databaseUrl, delegations, rounds: count, ms, warmUpMs, log } = plan;
  const processors = availableParallelism();
  const counts = [2, 4, MOST_PROCESSES].filter((processes) => processes === 2 || processes < processors);
  const servers = new Servers();
  const rounds = await Rounds.open(databaseUrl);
  try {
    log(`1 to ${counts.at(-1)} API processes`);
    const apis = [await servers.startApi(databaseUrl, HIGH_RATE_LIMIT)];
    while (apis.length < (counts.at(-1) ?? 1)) apis.push(await servers.startApi(databaseUrl, HIGH_RATE_LIMIT));
    const [first] = apis;
    if (!first) throw new Error("No API was started.");
    const key = await createKey(databaseUrl);
    const one = checkSubject(first, ofWallet, delegations, key);
    const over = (processes: number): Subject => ({
      ...one,
      name: `${one.name}, ${processes} processes`,
      ports: apis.slice(0, processes).map(({ port }) => port),
      pids: apis.slice(0, processes).map(({ pid }) => pid),
    });
    const several = counts.map((processes) => ({ processes, subject: over(processes) }));
    await rounds.warmUp([over(apis.length)], warmUpMs);
    const subjects = [one, ...several.map(({ subject }) => subject)];
    const results = await rounds.measure(subjects, { connections: CONNECTIONS, ms, rounds: count });
    const alone = figuresOf(results, one);
    return [
      { name: `${one.name}, 1 process`, figures: alone, comparisons: [], remark: describeUtilization(alone) },
      ...several.map(({ processes, subject }): Case => {
        const figures = figuresOf(results, subject);
        // Postgres and the load generator need processors too.
        const canCompare = processors > processes;
        const throughput = compareThroughput(figures, alone, "one process", 0.75 * processes);
        return {
          name: subject.name,
          figures,
          comparisons: [compareCost(figures, alone), ...(canCompare ? [throughput] : [])],
          remark: `${canCompare ? "" : "throughput not compared, there are too few processors; "}${describeUtilization(figures)}`,
        };
      }),
    ];
  } finally {
    await rounds.close();
    await servers.stop();
  }
};

/** Further processes share nothing but Postgres, so a request costs the same. */
const compareCost = (ours: Figures, theirs: Figures) =>
  compare({
    baseline: "one process",
    unit: "µs of API and Postgres",
    ours: costOf(ours),
    theirs: costOf(theirs),
    target: { atMost: 1.25 },
  });

/** Describes how busy the processors were, and with what. */
const describeUtilization = (figures: Figures): string => {
  const { apiMicroseconds: api, postgresMicroseconds: postgres, loadMicroseconds: load, busy } = figures;
  const percent = (part: number) => `${Math.round((100 * part) / (api + postgres + load))} %`;
  return `processors ${Math.round(busy * 100)} % busy: API ${percent(api)}, Postgres ${percent(postgres)}, load ${percent(load)}`;
};

/** Compares what checks cost the primary with a replica and without. */
const measureReplica = async (plan: ScalePlan): Promise<Case> => {
  const { delegations, rounds: count, ms, warmUpMs, log } = plan;
  log("A replica");
  const postgres = await startReplicatedPostgres();
  const servers = new Servers();
  const opened: Rounds[] = [];
  const open = async (url: string) => {
    const rounds = await Rounds.open(url);
    opened.push(rounds);
    return rounds;
  };
  try {
    const { primary, replica } = postgres.servers;
    const databaseUrl = (await createDataSets(primary.url, [delegations], log)).get(delegations) ?? "";
    const replicaUrl = new URL(new URL(databaseUrl).pathname, replica.url).href;
    await untilReplayed(databaseUrl, replicaUrl);
    const withReplica = await servers.startApi(databaseUrl, { ...HIGH_RATE_LIMIT, DATABASE_READ_URL: replicaUrl });
    const without = await servers.startApi(databaseUrl, HIGH_RATE_LIMIT);
    const key = await createKey(databaseUrl);
    const [subject, alone] = [withReplica, without].map((api) => checkSubject(api, ofWallet, delegations, key));
    if (!subject || !alone) throw new Error("No API was started.");
    const [onPrimary, onReplica] = [await open(databaseUrl), await open(replicaUrl)];
    for (const each of [subject, alone]) await onPrimary.warmUp([each], warmUpMs);
    // The primary has little to do: its processor time, in steps of 10 ms, needs many requests.
    const load = { connections: CONNECTIONS, ms: 4 * ms, rounds: count };
    const figures = figuresOf(await onReplica.measure([subject], load), subject);
    const ofPrimary = await onPrimary.measure([subject, alone], load);
    const [ours, theirs] = [figuresOf(ofPrimary, subject), figuresOf(ofPrimary, alone)];
    const comparison = compare({
      baseline: "without a replica",
      unit: "µs of the primary",
      ours: ours.postgresMicroseconds,
      theirs: theirs.postgresMicroseconds,
      target: { atMost: 0.2 },
    });
    return { name: `${subject.name} over a replica`, figures, comparisons: [comparison] };
  } finally {
    for (const rounds of opened) await rounds.close();
    await servers.stop();
    await postgres.stop();
  }
};

const untilReplayed = async (primaryUrl: string, replicaUrl: string): Promise<void> => {
  const [primary, replica] = [new pg.Client(primaryUrl), new pg.Client(replicaUrl)];
  await primary.connect();
  const { rows } = await primary.query("select pg_current_wal_lsn() as lsn");
  await primary.end();
  const isConnected = () => replica.connect().then(() => true);
  await waitUntil("the replica accepts connections", isConnected);
  const readReplayed = async () => {
    const { rows: replayed } = await replica.query("select pg_last_wal_replay_lsn() >= $1 as done", [rows[0].lsn]);
    return replayed[0].done;
  };
  await waitUntil("the replica has the data", readReplayed, 600).finally(() => replica.end());
};

const TABLES = ["delegation_v1", "delegation_v2", "delegation_change"];

/** Reads the size of a row of each table, with its share of all indexes. */
const measureSize = async ({ databaseUrl }: ScalePlan): Promise<Case> => {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const { rows } = await client.query(
    `select relname, pg_total_relation_size(pg_class.oid) / reltuples as bytes, pg_indexes_size(pg_class.oid)::float / pg_total_relation_size(pg_class.oid) as share
     from pg_class join indexer.shard on relnamespace = to_regnamespace(schema)
     where relname = any ($1) order by array_position($1, relname::text)`,
    [TABLES],
  );
  await client.end();
  const describe = ({ relname, bytes, share }: { relname: string; bytes: number; share: number }) =>
    `${relname} ${Math.round(bytes)} bytes, ${Math.round(100 * share)} % of them indexes`;
  return {
    name: "size of a row with its indexes",
    figures: {},
    comparisons: [],
    remark: rows.map(describe).join("; "),
  };
};
