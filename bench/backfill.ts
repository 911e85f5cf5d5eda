import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { IndexPlan } from "../indexer/plan.ts";
import { startPonder } from "../indexer/start-ponder.ts";
import { type Child, startNode } from "../process/child.ts";
import { findFreePort } from "../process/ports.ts";
import { networks } from "../registry/networks.ts";
import { compare } from "./comparison.ts";
import { cpuSeconds, peakMemory, serverCpuSeconds } from "./process-cost.ts";
import type { Case } from "./report.ts";
import { median } from "./rounds.ts";
import { DATA, logFile, withDatabase } from "./with-database.ts";

const ROOT = join(import.meta.dirname, "..");
const SCHEMA = "backfill";

const APPS = { ours: ROOT, baseline: join(import.meta.dirname, "empty-handlers") };
const MIN_RATIO = 0.6;
const MAX_MEMORY = 2 * 1024 ** 3;
const POLL_MS = 50;
const PROGRESS_MS = 10_000;

type Log = (message: string) => void;
type App = keyof typeof APPS;
type Run = {
  eventsPerSecond: number;
  /** Peak memory of the Ponder process, in bytes. */
  peakMemory: number;
  cpuMsPerEvent: number;
  postgresCpuMsPerEvent: number;
};

type Options = {
  /** A Postgres server on which databases can be created and dropped. */
  serverUrl: string;
  events: number;
  rounds: number;
  log: Log;
};

/**
 * Measures the speed of a backfill, from the first request for logs until the index has caught up, beside
 * the same Ponder app with empty handlers.
 */
export const measureBackfill = async ({ serverUrl, events, rounds, log }: Options): Promise<Case[]> => {
  const runs: Record<App, Run[]> = { ours: [], baseline: [] };
  for (let round = 1; round <= rounds; round++) {
    // Alternate the order: other load on the machine affects both.
    for (const app of round % 2 ? (["ours", "baseline"] as const) : (["baseline", "ours"] as const)) {
      log(`backfill, round ${round} of ${rounds}: ${app}, ${events} events`);
      const run = await runBackfill(app, serverUrl, events, log);
      log(`  ${Math.round(run.eventsPerSecond)} events/s, ${Math.round(run.peakMemory / 1024 ** 2)} MB`);
      runs[app].push(run);
    }
  }

  return summarizeRuns(runs, `${events.toLocaleString("en")} events`);
};

const summarizeRuns = (runs: Record<App, Run[]>, amount: string): Case[] => {
  const medianOf = (app: App, figure: "eventsPerSecond" | "cpuMsPerEvent" | "postgresCpuMsPerEvent") =>
    median(runs[app].map((run) => run[figure]));
  const maxMemory = (app: App) => Math.max(...runs[app].map((run) => run.peakMemory));
  const describe = (app: App): Pick<Case, "figures" | "remark"> => ({
    figures: {
      apiMicroseconds: medianOf(app, "cpuMsPerEvent") * 1000,
      postgresMicroseconds: medianOf(app, "postgresCpuMsPerEvent") * 1000,
      memoryMegabytes: maxMemory(app) / 2 ** 20,
    },
    remark: `${Math.round(medianOf(app, "eventsPerSecond")).toLocaleString("en")} events/s; µs are the indexer's, for each event`,
  });
  return [
    { name: `backfill of ${amount}, empty handlers`, ...describe("baseline"), comparisons: [] },
    {
      name: `backfill of ${amount}`,
      ...describe("ours"),
      comparisons: [
        compare({
          baseline: "empty handlers",
          unit: "events/s",
          ours: medianOf("ours", "eventsPerSecond"),
          theirs: medianOf("baseline", "eventsPerSecond"),
          target: { atLeast: MIN_RATIO },
        }),
        compare({
          baseline: "2 GB",
          unit: "peak memory",
          ours: maxMemory("ours"),
          theirs: MAX_MEMORY,
          target: { atMost: 1 },
        }),
      ],
    },
  ];
};

const runBackfill = (app: App, serverUrl: string, events: number, log: Log): Promise<Run> =>
  withDatabase(serverUrl, `backfill_${app}`, async (databaseUrl) => {
    const parts: Child[] = [];
    const client = new pg.Client(databaseUrl);
    await client.connect();
    try {
      const { rows } = await client.query("select pg_backend_pid() as pid");
      const serverCpu = () => serverCpuSeconds(rows[0].pid);
      const rpc = await startReplayRpc(events);
      parts.push(rpc.child);
      await rpc.untilUp();

      const serverCpuBefore = serverCpu();
      const ponder = await startApp(app, rpc.url, databaseUrl);
      parts.push(ponder);
      await untilReady(client, ponder, log);
      const seconds = (Date.now() - (await rpc.firstLogsAt())) / 1000;
      return {
        eventsPerSecond: events / seconds,
        peakMemory: peakMemory(ponder.pid),
        cpuMsPerEvent: (cpuSeconds(ponder.pid) * 1000) / events,
        postgresCpuMsPerEvent: ((serverCpu() - serverCpuBefore) * 1000) / events,
      };
    } finally {
      for (const part of parts.reverse()) await part.stop();
      await client.end();
    }
  });

const startReplayRpc = async (events: number) => {
  const port = await findFreePort();
  const url = `http://127.0.0.1:${port}`;
  const child = startNode(join(import.meta.dirname, "replay-rpc.ts"), [String(port), String(events)], {
    env: process.env,
  });
  const request = async (method: string) => {
    const response = await fetch(url, { method: "POST", body: JSON.stringify({ id: 1, method }) });
    const { result } = (await response.json()) as { result: unknown };
    return result;
  };
  return {
    url,
    child,
    untilUp: async () => {
      while ((await request("eth_chainId").catch(() => null)) === null) await sleep(50);
    },
    firstLogsAt: async () => Number(await request("replay_firstLogsAt")),
  };
};

const startApp = async (app: App, rpcUrl: string, databaseUrl: string): Promise<Child> => {
  const mainnet = networks.get(1);
  if (!mainnet?.v1 || !mainnet.v2) throw new Error("Chain 1 does not have both registries.");
  const plan: IndexPlan = {
    chains: [
      {
        chainId: 1,
        name: mainnet.name,
        rpcUrls: [rpcUrl],
        wsUrl: null,
        v1: { address: mainnet.v1.address, startBlock: 0 },
        v2: { address: mainnet.v2.address, startBlock: 0 },
      },
    ],
    pollingIntervalMs: 1000,
  };
  return startPonder({
    root: APPS[app],
    plan,
    databaseUrl,
    schema: SCHEMA,
    host: "127.0.0.1",
    port: await findFreePort(),
    logLevel: "info",
    logFormat: "json",
    output: logFile(`backfill-${app}`),
  });
};

/** Resolves when Ponder has finished the backfill, including its indexes. */
const untilReady = async (client: pg.Client, ponder: Child, log: Log): Promise<void> => {
  let hasEnded = false;
  ponder.exited.then(() => {
    hasEnded = true;
  });
  let reportAt = Date.now() + PROGRESS_MS;
  for (; ; await sleep(POLL_MS)) {
    if (hasEnded) throw new Error(`Ponder exited before it had caught up: see the logs in ${DATA}.`);
    const { rows: tables } = await client.query(`select to_regclass('${SCHEMA}._ponder_meta') as meta`);
    if (!tables[0].meta) continue;
    const { rows } = await client.query(`select value->'is_ready' = '1' as ready from ${SCHEMA}._ponder_meta`);
    if (rows[0]?.ready) return;
    if (Date.now() < reportAt) continue;
    const { rows: checkpoints } = await client.query(
      `select substring(latest_checkpoint from 27 for 16)::int as block from ${SCHEMA}._ponder_checkpoint`,
    );
    log(`  block ${checkpoints[0]?.block ?? 0}`);
    reportAt = Date.now() + PROGRESS_MS;
  }
};
