import { join } from "node:path";
import type { Writable } from "node:stream";
import { getHeapStatistics } from "node:v8";
import { type Child, startNode } from "../stack/child.ts";
import { type IndexPlan, PLAN_VARIABLE } from "./plan.ts";

const PONDER = join(import.meta.dirname, "../node_modules/ponder/dist/esm/bin/ponder.js");

/**
 * The most that Ponder's heap may have, where the machine has as much for it as V8 says. A fifth of it is its cache of
 * rows. V8 would allow 4 GB on a large machine, and a backfill of a million events would take more than half of that.
 */
const MOST_HEAP_MB = 2_560;

const heapMegabytes = (): number => Math.min(MOST_HEAP_MB, Math.floor(getHeapStatistics().heap_size_limit / 2 ** 20));

type Options = {
  /** Where its app is. */
  root: string;
  plan: IndexPlan;
  databaseUrl: string;
  schema: string;
  host: string;
  port: number;
  logLevel: string;
  logFormat: "pretty" | "json";
  /** Where its output goes; by default to this process's own. */
  output?: Writable;
};

/** Starts Ponder with a plan. */
export const startPonder = (options: Options): Child => {
  const { root, plan, databaseUrl, schema, host, port, logLevel, logFormat, output } = options;
  return startNode(
    PONDER,
    [
      "start",
      ...["--root", root],
      ...["--schema", schema],
      ...["--hostname", host],
      ...["--log-level", logLevel],
      ...["--log-format", logFormat],
    ],
    {
      output,
      env: {
        ...process.env,
        // The operator's own options count for more: they come later.
        NODE_OPTIONS: `--max-old-space-size=${heapMegabytes()} ${process.env.NODE_OPTIONS ?? ""}`,
        // Each thread has an arena of its own to allocate from, none of which is ever given back: the process would grow
        // by half in its first minutes.
        MALLOC_ARENA_MAX: process.env.MALLOC_ARENA_MAX ?? "2",
        // To Ponder PORT counts for more than its own option; to everybody else it is the public API's.
        PORT: String(port),
        DATABASE_URL: databaseUrl,
        [PLAN_VARIABLE]: JSON.stringify(plan),
        PONDER_TELEMETRY_DISABLED: "true",
      },
    },
  );
};
