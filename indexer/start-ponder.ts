import { join } from "node:path";
import type { Writable } from "node:stream";
import { getHeapStatistics } from "node:v8";
import { type Child, startNode } from "../process/child.ts";
import { type IndexPlan, PLAN_VARIABLE } from "./plan.ts";

const PONDER = join(import.meta.dirname, "../node_modules/ponder/dist/esm/bin/ponder.js");

/**
 * Maximum heap of Ponder; less if V8's own limit on this machine is lower. A fifth of it is Ponder's cache of rows. On a
 * large machine V8 would allow 4 GB, and a backfill of a million events would use more than half of that.
 */
const MAX_HEAP_MB = 2_560;

const computeHeapMb = (): number => Math.min(MAX_HEAP_MB, Math.floor(getHeapStatistics().heap_size_limit / 2 ** 20));

type Options = {
  /** The folder with ponder.config.ts. */
  root: string;
  plan: IndexPlan;
  databaseUrl: string;
  schema: string;
  host: string;
  port: number;
  logLevel: string;
  logFormat: "pretty" | "json";
  /** Receives Ponder's output; by default this process's own. */
  output?: Writable;
};

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
        // The operator's own options come later, and override this one.
        NODE_OPTIONS: `--max-old-space-size=${computeHeapMb()} ${process.env.NODE_OPTIONS ?? ""}`,
        // By default each thread allocates from its own arena, and none is ever released: the process would grow by half
        // in its first minutes.
        MALLOC_ARENA_MAX: process.env.MALLOC_ARENA_MAX ?? "2",
        // Ponder prefers PORT to its own option. For all other programs PORT is the public API's.
        PORT: String(port),
        DATABASE_URL: databaseUrl,
        [PLAN_VARIABLE]: JSON.stringify(plan),
        PONDER_TELEMETRY_DISABLED: "true",
      },
    },
  );
};
