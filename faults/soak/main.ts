import { parseArgs } from "node:util";
import { runUntilStopped } from "../../process/program.ts";
import { waitUntil } from "../../test/support/setup.ts";
import { startCountingStack } from "../counting-chain.ts";
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
} from "../faults.ts";
import type { LoadReport } from "../load.ts";
import { type Outcome, runFaults, runLoad } from "../run-faults.ts";
import type { Stack } from "../stack.ts";
import { judgeMemory, type MemorySample, watchMemory } from "./memory.ts";

// npm run soak -- --minutes 10: runs the service at half its capacity while its parts fail one by one, and verifies every
// answer. docs/reliability.md has the newest figures.

/** Blocks of both are final after a minute or less. Until then Ponder keeps them, and its memory grows. */
const CHAINS = [1, 10];
const OTHER_CHAIN = 10;
const CONNECTIONS = 32;
/** Maximum lag of an index at the end, in blocks of one second. */
const MOST_BEHIND = 5;

/** A short run meets every fault. It asks for less, so that the service recovers sooner, and is too short for memory. */
const SHORT_MINUTES = 3;
const SHORT = { share: 0.2, warmUpS: 2, measuredS: 3, maxLagSeconds: 10 };
const LONG = { share: 0.5, warmUpS: 10, measuredS: 10, maxLagSeconds: 30 };

/** Faults that kill a process come first, so that the memory of its replacement is observed for longer. */
const listFaults = (maxLagSeconds: number): Fault[] => [
  ponderKilled,
  indexerKilled,
  apiKilled(1),
  lockHeld,
  // Longer than its index counts as fresh.
  rpcOutage(OTHER_CHAIN, 1_500 * maxLagSeconds),
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
const measureCapacity = async (stack: Stack, { warmUpS, measuredS }: typeof LONG): Promise<number> => {
  const perSecond: number[] = [];
  const load = { connections: CONNECTIONS, perSecond: null };
  const { stop } = runLoad(stack, load, ({ answered }) => perSecond.push(answered));
  const isMeasured = () => perSecond.length >= warmUpS + measuredS;
  await waitUntil("the capacity is measured", isMeasured, 120).finally(stop);
  return perSecond.slice(warmUpS).reduce((sum, answered) => sum + answered, 0) / (perSecond.length - warmUpS);
};

await runUntilStopped(async (signal) => {
  const minutes = readMinutes();
  const size = minutes < SHORT_MINUTES ? SHORT : LONG;
  const startedAt = Date.now();
  const log = (message: string) =>
    console.error(`${String(Math.round((Date.now() - startedAt) / 1000)).padStart(5)} s  ${message}`);

  log("Starting Postgres, two chains, an indexer and two APIs");
  const apiEnv = { MAX_INDEX_LAG_SECONDS: String(size.maxLagSeconds), RATE_LIMIT_WINDOW_SECONDS: "1" };
  const { stack, stop } = await startCountingStack({ chainIds: CHAINS, apis: 2, apiEnv });
  try {
    const capacity = await measureCapacity(stack, size);
    const perSecond = capacity * size.share;
    log(`It can answer ${Math.round(capacity)} requests a second; asking for ${Math.round(perSecond)}`);

    const memory = watchMemory(stack);
    const faults = listFaults(size.maxLagSeconds);
    const slotMs = (minutes * 60_000) / (faults.length + 1);
    const load = { connections: CONNECTIONS, perSecond };
    const outcome = await runFaults(stack, faults, { load, slotMs, log, signal }).finally(memory.stop);

    console.log(`\ncapacity               ${Math.round(capacity)} answers/s, asked for ${Math.round(perSecond)}`);
    printOutcome(outcome);
    const problems = [...outcome.problems, ...printMemory(memory.samples)];
    const indexed = await stack.readIndexedBlocks();
    for (const { chainId, client } of stack.chains) {
      const behind = Number(await client.getBlockNumber()) - (indexed.get(chainId) ?? 0);
      if (behind > MOST_BEHIND) problems.push(`Chain ${chainId} is ${behind} blocks behind at the end.`);
    }
    if (problems.length > 0) {
      throw new Error(`It does not hold, for ${problems.length} reasons:\n${problems.slice(0, 10).join("\n")}`);
    }
    console.log("All of it holds: no wrong answer, no error but while a part was down, and memory is flat.");
  } finally {
    await stop();
  }
});

function printOutcome({ reports, answered, errors, byWindow }: Outcome): void {
  const middle = (pick: (report: LoadReport) => number) => {
    const sorted = reports.map(pick).sort((a, b) => a - b);
    return (sorted[sorted.length >> 1] ?? Number.NaN).toFixed(1);
  };
  console.log(`answered               ${answered}, in ${reports.length} s
median second          p50 ${middle(({ p50Ms }) => p50Ms)} ms, p99 ${middle(({ p99Ms }) => p99Ms)} ms
errors                 ${errors.length}
`);
  console.log("| fault | lasted | then recovered in | errors |\n|---|---|---|---|");
  const shown = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
  for (const [{ name, from, causeGone, recovered }, count] of byWindow) {
    console.log(`| ${name} | ${shown(causeGone - from)} | ${shown(recovered - causeGone)} | ${count} |`);
  }
}

/** Prints the memory of each process. @returns those that grow */
function printMemory(samples: readonly MemorySample[]): string[] {
  console.log("\n| process | lived | most memory, 2nd third → last third | ever |\n|---|---|---|---|");
  const growing: string[] = [];
  for (const { process, seconds, peak, grown, isFlat } of judgeMemory(samples)) {
    const change = grown ? `${grown.from.toFixed(0)} → ${grown.to.toFixed(0)} MB` : "too short to tell";
    console.log(`| ${process} | ${seconds} s | ${change} | ${peak.toFixed(0)} MB |`);
    if (!isFlat) growing.push(`The memory of ${process} grows: ${change}`);
  }
  console.log("");
  return growing;
}
