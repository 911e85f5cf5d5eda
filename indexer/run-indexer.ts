import { join } from "node:path";
import type { Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { type Child, startNode } from "../sandbox/child.ts";
import { isPortFree } from "../sandbox/ports.ts";
import { IndexerDatabase } from "./database.ts";
import { indexId } from "./index-id.ts";
import { type IndexPlan, PLAN_VARIABLE } from "./plan.ts";
import { checkEndpoints, preparePlan } from "./prepare-plan.ts";
import { type IndexerSettings, SettingsError } from "./settings.ts";

const ROOT = join(import.meta.dirname, "..");
const PONDER = join(ROOT, "node_modules/ponder/dist/esm/bin/ponder.js");

const WATCH_MS = 500;
const FIRST_RESTART_MS = 1_000;
const LONGEST_RESTART_MS = 30_000;

type Options = {
  databaseUrl: string;
  log: (message: string) => void;
  /** Where Ponder's output goes; by default to this process's own. */
  output?: Writable;
  /** Called each time the index has caught up with all its chains. */
  onReady?: (schema: string) => void;
  /** Starts Ponder again when it ends by itself. */
  restart: boolean;
  /** Ends the indexer. */
  signal: AbortSignal;
};

/**
 * Runs one shard until it is stopped, or superseded by an indexer with a newer index. Throws when it
 * cannot go on.
 */
export const runIndexer = async (settings: IndexerSettings, options: Options): Promise<void> => {
  const { log, signal } = options;
  if (!(await isPortFree(settings.host, settings.port))) {
    throw new SettingsError([
      `INDEXER_PORT: ${settings.host}:${settings.port} is in use. End what listens there, or set another INDEXER_PORT.`,
    ]);
  }
  await checkEndpoints(settings.chains, log, signal);
  if (signal.aborted) return;

  const database = await IndexerDatabase.connect(options.databaseUrl);
  try {
    const plan = await preparePlan(settings, database, log);
    const schema = `${settings.shard}_${indexId(plan.chains)}`;
    if (!(await database.lockIndex(schema))) {
      throw new Error(`Another indexer is running shard "${settings.shard}" with the same index (${schema}).`);
    }
    await keepPonderRunning(settings, plan, schema, database, options);
  } finally {
    await database.close();
  }
};

const keepPonderRunning = async (
  settings: IndexerSettings,
  plan: IndexPlan,
  schema: string,
  database: IndexerDatabase,
  options: Options,
): Promise<void> => {
  const { log, restart, signal } = options;
  let restartMs = FIRST_RESTART_MS;

  while (!signal.aborted) {
    const child = startPonder(settings, plan, schema, options);
    const ending = new AbortController();
    const exited = child.exited.then((exit) => {
      ending.abort();
      return exit;
    });
    signal.addEventListener("abort", child.stop, { once: true });

    const isSuperseded = await watch(settings.shard, schema, database, ending.signal, options, () => {
      restartMs = FIRST_RESTART_MS;
    });
    if (isSuperseded) await child.stop();
    const exit = await exited;
    signal.removeEventListener("abort", child.stop);
    await database.releasePonderLock(schema).catch(() => {});

    if (isSuperseded) {
      log(`Index ${schema} is superseded: shard "${settings.shard}" is served from a newer one. Stopping.`);
      return;
    }
    if (signal.aborted) return;

    const reason = exit.signal ? `was ended by ${exit.signal}` : `ended with code ${exit.code}`;
    if (!restart) throw new Error(`The indexer ${reason}.`);
    log(`The indexer ${reason}; starting it again in ${restartMs / 1000} s.`);
    await sleep(restartMs, undefined, { signal }).catch(() => {});
    restartMs = Math.min(restartMs * 2, LONGEST_RESTART_MS);
  }
};

const startPonder = (
  { shard, host, port, logLevel }: IndexerSettings,
  plan: IndexPlan,
  schema: string,
  { databaseUrl, output }: Options,
): Child => {
  // PORT is the public API's; Ponder would take it for its own.
  const { PORT: _, ...environment } = process.env;
  return startNode(
    PONDER,
    [
      "start",
      ...["--root", ROOT],
      ...["--schema", schema],
      ...["--views-schema", shard],
      ...["--hostname", host],
      ...["--port", String(port)],
      ...["--log-level", logLevel],
      ...["--log-format", process.stdout.isTTY || output ? "pretty" : "json"],
    ],
    {
      output,
      env: {
        ...environment,
        DATABASE_URL: databaseUrl,
        [PLAN_VARIABLE]: JSON.stringify(plan),
        PONDER_TELEMETRY_DISABLED: "true",
      },
    },
  );
};

/**
 * Follows an index while its Ponder runs: tells when it has caught up, drops what it superseded.
 * @returns true when it has itself been superseded.
 */
const watch = async (
  shard: string,
  schema: string,
  database: IndexerDatabase,
  ended: AbortSignal,
  { log, onReady }: Options,
  onCaughtUp: () => void,
): Promise<boolean> => {
  let isReady = false;
  while (!ended.aborted) {
    try {
      const served = await database.servedSchema(shard);
      if (!isReady && served === schema && (await database.isReady(schema))) {
        isReady = true;
        onCaughtUp();
        onReady?.(schema);
      }
      if (isReady && served !== schema) return true;
      if (isReady) {
        for (const dropped of await database.dropSuperseded(shard, schema)) {
          log(`Dropped ${dropped}, which this index supersedes.`);
        }
      }
    } catch (error) {
      log(`Cannot follow the index in the database: ${(error as Error).message}`);
    }
    await sleep(WATCH_MS, undefined, { signal: ended }).catch(() => {});
  }
  return false;
};
