import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { residentMemory } from "../../../bench/process-cost.ts";
import { runUntilStopped } from "../../../process/program.ts";
import {
  apiKilled,
  connectionsLost,
  type Fault,
  indexerKilled,
  lockHeld,
  ponderKilled,
  postgresCrash,
  postgresRestart,
  rpcOutage,
} from "./faults.ts";
import type { LoadError, LoadOptions, LoadReport } from "./load.ts";
import { runLoad } from "./run-load.ts";
import { Service } from "./service.ts";
import { assignErrors, judgeMemory, type MemorySample, type Window } from "./verdict.ts";

// npm run soak -- --minutes 10: runs the service at half its capacity while its parts fail one by one, and verifies every
// answer. docs/reliability.md has the newest figures.

/** Blocks of both are final after a minute or less. Until then Ponder keeps them, and its memory grows. */
const CHAINS = [1, 10];
const OTHER_CHAIN = 10;
const CONNECTIONS = 32;
const WARM_UP_S = 10;
const CAPACITY_S = 10;
/** The RPC outage lasts longer than its index counts as fresh. */
const MAX_LAG_SECONDS = 30;
const RPC_OUTAGE_MS = 45_000;
const LONGEST_RECOVERY_S = 120;
/** Maximum lag of an index at the end, in blocks of one second. */
const MOST_BEHIND = 5;

/** Faults that kill a process come first, so that the memory of its replacement is observed for longer. */
const FAULTS: readonly Fault[] = [
  ponderKilled,
  indexerKilled,
  apiKilled(1),
  lockHeld,
  rpcOutage(OTHER_CHAIN, RPC_OUTAGE_MS),
  connectionsLost,
  postgresRestart,
  postgresCrash,
];

const readMinutes = (): number => {
  const { values } = parseArgs({ options: { minutes: { type: "string", default: "10" } } });
  const minutes = Number(values.minutes);
  if (!(minutes > 0)) throw new Error(`--minutes ${values.minutes}: how long it is to take, in minutes.`);
  return minutes;
};

/** Measures the answers per second without a rate target. */
const measureCapacity = async (load: Omit<LoadOptions, "perSecond">): Promise<number> => {
  const perSecond: number[] = [];
  const { stop } = runLoad({ ...load, perSecond: null }, ({ answered }) => perSecond.push(answered));
  await sleep((WARM_UP_S + CAPACITY_S) * 1000);
  await stop();
  const measured = perSecond.slice(-CAPACITY_S);
  return measured.reduce((sum, answered) => sum + answered, 0) / measured.length;
};

/** Reads the memory of a process. Null if it was killed, even if it is still listed. */
const readMegabytes = (pid: number): number | null => {
  try {
    return residentMemory(pid) / 2 ** 20 || null;
  } catch {
    return null;
  }
};

const watchMemory = (service: Service): { samples: MemorySample[]; stop: () => void } => {
  const samples: MemorySample[] = [];
  const timer = setInterval(() => {
    const pids = [
      ...service.apis.map(({ pid }, index) => ({ process: `API ${index + 1}`, pid })),
      { process: "Ponder", pid: service.ponderPid },
    ];
    for (const { process, pid } of pids) {
      const megabytes = pid ? readMegabytes(pid) : null;
      if (pid && megabytes !== null) samples.push({ at: Date.now(), process, pid, megabytes });
    }
  }, 1_000);
  return { samples, stop: () => clearInterval(timer) };
};

await runUntilStopped(async (signal) => {
  const minutes = readMinutes();
  const startedAt = Date.now();
  const log = (message: string) =>
    console.error(`${String(Math.round((Date.now() - startedAt) / 1000)).padStart(5)} s  ${message}`);

  log("Starting Postgres, two chains, an indexer and two APIs");
  const directory = await mkdtemp(join(tmpdir(), "delegation-registry-soak-"));
  const service = await Service.start({ directory, chainIds: CHAINS, apis: 2, maxLagSeconds: MAX_LAG_SECONDS });
  try {
    const load = { ports: service.ports, counters: service.counters, connections: CONNECTIONS };
    const capacity = await measureCapacity(load);
    log(`It can answer ${Math.round(capacity)} requests a second; asking for half of that`);

    const reports: LoadReport[] = [];
    const windows: Window[] = [];
    const { samples, stop: stopWatching } = watchMemory(service);
    const running = runLoad({ ...load, perSecond: capacity / 2 }, (report) => reports.push(report));
    const slotMs = (minutes * 60_000) / (FAULTS.length + 1);
    const soakedFrom = Date.now();
    for (const [index, fault] of FAULTS.entries()) {
      await sleep(soakedFrom + (index + 0.5) * slotMs - Date.now(), undefined, { signal });
      const from = Date.now();
      log(fault.name);
      await fault.run(service);
      const causeGone = Date.now();
      await service.untilRecovered(LONGEST_RECOVERY_S);
      const concerns = (error: LoadError) => fault.concerns(error, service);
      windows.push({ name: fault.name, from, causeGone, recovered: Date.now(), concerns });
      log(`${fault.name}: recovered ${((Date.now() - causeGone) / 1000).toFixed(1)} s after its cause was gone`);
    }
    await sleep(Math.max(0, soakedFrom + minutes * 60_000 - Date.now()), undefined, { signal });
    await running.stop();
    stopWatching();

    const failures = printOutcome({ capacity, seconds: (Date.now() - soakedFrom) / 1000, reports, windows, samples });
    const indexed = await service.indexedBlocks();
    for (const { chainId, client } of service.chains) {
      const behind = Number(await client.getBlockNumber()) - (indexed.get(chainId) ?? 0);
      if (behind > MOST_BEHIND) failures.push(`chain ${chainId} is ${behind} blocks behind at the end`);
    }
    if (failures.length > 0) throw new Error(`It does not hold: ${failures.join("; ")}.`);
    console.log("All of it holds: no wrong answer, no error but while a part was down, and memory is flat.");
  } finally {
    await service.stop();
    await rm(directory, { recursive: true, force: true });
  }
});

type Outcome = { capacity: number; seconds: number; reports: LoadReport[]; windows: Window[]; samples: MemorySample[] };

/** Prints the results. @returns the failed guarantees */
function printOutcome({ capacity, seconds, reports, windows, samples }: Outcome): string[] {
  const failures: string[] = [];
  const answered = reports.reduce((sum, report) => sum + report.answered, 0);
  const wrong = reports.flatMap((report) => report.wrong);
  const errors = reports.flatMap((report) => report.errors);
  const { byWindow, unexplained } = assignErrors(errors, windows);
  const middle = (pick: (report: LoadReport) => number) => {
    const sorted = reports.map(pick).sort((a, b) => a - b);
    return (sorted[sorted.length >> 1] ?? Number.NaN).toFixed(1);
  };

  console.log(`
capacity               ${Math.round(capacity)} answers/s
asked for              ${Math.round(capacity / 2)} a second, for ${Math.round(seconds)} s
answered               ${answered}, of which wrong: ${wrong.length}
median second          p50 ${middle(({ p50Ms }) => p50Ms)} ms, p99 ${middle(({ p99Ms }) => p99Ms)} ms
errors                 ${errors.length}, of which while no part was down: ${unexplained.length}
`);
  console.log("| fault | lasted | then recovered in | errors |\n|---|---|---|---|");
  const shown = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
  for (const [window, count] of byWindow) {
    const { name, from, causeGone, recovered } = window;
    console.log(`| ${name} | ${shown(causeGone - from)} | ${shown(recovered - causeGone)} | ${count} |`);
  }
  console.log("\n| process | lived | most memory, 2nd third → last third | ever |\n|---|---|---|---|");
  for (const { process, seconds, peak, grown, isFlat } of judgeMemory(samples)) {
    const change = grown ? `${grown.from.toFixed(0)} → ${grown.to.toFixed(0)} MB` : "too short to tell";
    console.log(`| ${process} | ${seconds} s | ${change} | ${peak.toFixed(0)} MB |`);
    if (!isFlat) failures.push(`the memory of ${process} grows: ${change}`);
  }
  console.log("");

  if (wrong.length > 0) failures.push(`${wrong.length} wrong answers: ${wrong.slice(0, 5).join(", ")}`);
  if (unexplained.length > 0) {
    const sample = unexplained
      .slice(0, 5)
      .map(({ at, chainId, port, what }) => `${new Date(at).toISOString()} ${what} (chain ${chainId}, port ${port})`);
    failures.push(`${unexplained.length} errors while no part was down: ${sample.join(", ")}`);
  }
  if (answered === 0) failures.push("nothing was answered");
  return failures;
}
