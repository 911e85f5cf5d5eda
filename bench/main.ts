import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startEmbeddedPostgres } from "../stack/embedded-postgres.ts";
import { runUntilStopped } from "../stack/program.ts";
import { measureBackfill } from "./backfill.ts";
import { createDataSets } from "./data-set.ts";
import { DATA } from "./database.ts";
import { measureGrowth, measureHttp } from "./http.ts";
import { measureLive } from "./live.ts";
import { type Case, describeMachine, renderTable } from "./report.ts";

// npm run bench: measures the service beside what it could be. bench/README.md says what the figures mean.

const FULL = {
  delegations: 1_000_000,
  few: 10_000,
  many: 5_000_000,
  rounds: 5,
  ms: 2_000,
  warmUpMs: 15_000,
  events: 1_000_000,
  samples: 40,
};
const QUICK: typeof FULL = {
  delegations: 100_000,
  few: 10_000,
  many: 100_000,
  rounds: 3,
  ms: 250,
  // Of what this is measured beside, a query for each request takes longest to be as fast as it gets: three to four seconds.
  warmUpMs: 3_000,
  events: 10_000,
  samples: 3,
};
const PARTS = ["http", "growth", "backfill", "live"] as const;

await runUntilStopped(async () => {
  const { values: options } = parseArgs({
    options: { quick: { type: "boolean", default: false }, only: { type: "string" } },
  });
  const { only } = options;
  if (only !== undefined && !PARTS.some((part) => part === only)) {
    throw new Error(`--only ${only}: there is no such part; the parts are ${PARTS.join(", ")}.`);
  }
  const isWanted = (part: (typeof PARTS)[number]) => only === undefined || only === part;
  const plan = options.quick ? QUICK : FULL;
  const startedAt = performance.now();
  const log = (message: string) =>
    console.error(`${String(Math.round((performance.now() - startedAt) / 1000)).padStart(5)} s  ${message}`);

  const postgres = await startEmbeddedPostgres({ directory: join(DATA, "postgres"), disposable: true });
  const cases: Case[] = [];
  try {
    const { delegations, few, many } = plan;
    const sizes = [...(isWanted("http") ? [delegations] : []), ...(isWanted("growth") ? [few, many] : [])];
    const urls = sizes.length > 0 ? await createDataSets(postgres.url, sizes, log) : new Map<number, string>();
    const sized = (size: number) => ({ url: urls.get(size) ?? "", size });
    if (isWanted("http")) {
      cases.push(...(await measureHttp({ ...plan, databaseUrl: sized(delegations).url, log })));
    }
    if (isWanted("growth")) {
      cases.push(...(await measureGrowth({ few: sized(few), many: sized(many) }, { ...plan, log })));
    }
    if (isWanted("backfill")) {
      cases.push(...(await measureBackfill({ serverUrl: postgres.url, events: plan.events, rounds: 1, log })));
    }
    if (isWanted("live")) {
      cases.push(...(await measureLive({ serverUrl: postgres.url, samples: plan.samples, log })));
    }
  } finally {
    await postgres.stop();
  }

  const results = join(DATA, options.quick ? "quick.json" : "full.json");
  mkdirSync(DATA, { recursive: true });
  writeFileSync(results, JSON.stringify({ at: new Date(), machine: describeMachine(), plan, cases }, null, 2));
  console.log(renderTable(cases));
  const short = cases.flatMap(({ name, comparisons }) => comparisons.filter(({ isMet }) => !isMet).map(() => name));
  log(`Done; all figures are in ${results}.`);
  if (short.length > 0) throw new Error(`${short.length} ratios fall short of their targets.`);
});
