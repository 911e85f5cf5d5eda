import { mkdirSync, writeFileSync } from "node:fs";
import { platform } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startEmbeddedPostgres } from "../local/embedded-postgres.ts";
import { runUntilStopped } from "../process/program.ts";
import { measureBackfill } from "./backfill.ts";
import { measureChains } from "./chains.ts";
import { measureClient } from "./client.ts";
import { createDataSets } from "./data-set.ts";
import { measureGrowth, measureHttp } from "./http.ts";
import { measureLive } from "./live.ts";
import { measureProofs } from "./proofs.ts";
import { type Case, describeMachine, renderTable } from "./report.ts";
import { measureScale } from "./scale.ts";
import { DATA } from "./with-database.ts";

// npm run bench: measures the service beside its baselines. bench/README.md explains the figures.

const FULL = {
  delegations: 1_000_000,
  few: 10_000,
  many: 5_000_000,
  rounds: 5,
  ms: 2_000,
  warmUpMs: 15_000,
  events: 1_000_000,
  samples: 40,
  chainCounts: [1, 5, 10, 20],
  lagMs: 60_000,
  checks: 10_000,
};
const QUICK: typeof FULL = {
  delegations: 100_000,
  few: 10_000,
  many: 100_000,
  rounds: 3,
  ms: 250,
  // The slowest baseline to warm up, one query per request, reaches its full speed after three to four seconds.
  warmUpMs: 3_000,
  events: 10_000,
  samples: 3,
  chainCounts: [10],
  lagMs: 10_000,
  checks: 2_000,
};
/** Starts every part and every baseline, for tests. Its figures say nothing. */
const SMOKE: typeof FULL = {
  delegations: 4_000,
  few: 4_000,
  many: 4_000,
  rounds: 1,
  ms: 50,
  warmUpMs: 50,
  events: 1_000,
  samples: 1,
  chainCounts: [2],
  lagMs: 1_000,
  checks: 200,
};
const PARTS = ["http", "growth", "backfill", "live", "chains", "client", "proofs", "scale"] as const;

await runUntilStopped(async () => {
  if (platform() !== "linux")
    throw new Error("npm run bench reads times and memory of processes in /proc: it needs Linux.");
  const { values: options } = parseArgs({
    options: {
      quick: { type: "boolean", default: false },
      smoke: { type: "boolean", default: false },
      only: { type: "string" },
    },
  });
  const { only } = options;
  if (only !== undefined && !PARTS.some((part) => part === only)) {
    throw new Error(`--only ${only} is unknown. The parts are ${PARTS.join(", ")}.`);
  }
  const isWanted = (part: (typeof PARTS)[number]) => only === undefined || only === part;
  const [scale, plan] = options.smoke
    ? (["smoke", SMOKE] as const)
    : options.quick
      ? (["quick", QUICK] as const)
      : (["full", FULL] as const);
  const startedAt = performance.now();
  const log = (message: string) =>
    console.error(`${String(Math.round((performance.now() - startedAt) / 1000)).padStart(5)} s  ${message}`);

  const postgres = await startEmbeddedPostgres({ directory: join(DATA, "postgres"), disposable: true });
  const cases: Case[] = [];
  try {
    const { delegations, few, many } = plan;
    const sizes = [
      ...(isWanted("http") || isWanted("scale") ? [delegations] : []),
      ...(isWanted("growth") ? [few, many] : []),
    ];
    const urls = sizes.length > 0 ? await createDataSets(postgres.url, sizes, log) : new Map<number, string>();
    const dataSet = (size: number) => ({ url: urls.get(size) ?? "", size });
    if (isWanted("http")) {
      cases.push(...(await measureHttp({ ...plan, databaseUrl: dataSet(delegations).url, log })));
    }
    if (isWanted("growth")) {
      cases.push(...(await measureGrowth({ few: dataSet(few), many: dataSet(many) }, { ...plan, log })));
    }
    if (isWanted("scale")) {
      cases.push(...(await measureScale({ ...plan, databaseUrl: dataSet(delegations).url, log })));
    }
    if (isWanted("backfill")) {
      cases.push(...(await measureBackfill({ serverUrl: postgres.url, events: plan.events, rounds: 1, log })));
    }
    if (isWanted("live")) {
      cases.push(...(await measureLive({ serverUrl: postgres.url, samples: plan.samples, log })));
    }
    if (isWanted("chains")) {
      cases.push(...(await measureChains({ ...plan, serverUrl: postgres.url, log })));
    }
    if (isWanted("client")) {
      cases.push(...(await measureClient({ ...plan, serverUrl: postgres.url, log })));
    }
    if (isWanted("proofs")) {
      cases.push(...(await measureProofs({ ...plan, serverUrl: postgres.url, log })));
    }
  } finally {
    await postgres.stop();
  }

  const results = join(DATA, `${scale}.json`);
  mkdirSync(DATA, { recursive: true });
  writeFileSync(results, JSON.stringify({ at: new Date(), machine: describeMachine(), plan, cases }, null, 2));
  console.log(renderTable(cases));
  const missed = cases.flatMap(({ comparisons }) => comparisons.filter(({ isMet }) => !isMet));
  log(`Done; all figures are in ${results}.`);
  if (missed.length > 0) throw new Error(`${missed.length} ratios fall short of their targets.`);
});
