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

const CATCHING_UP_WATCH_MS = 500;
const WATCH_MS = 2_000;
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
  const index = new ServedIndex(settings.shard, schema, plan, database, options);
  let restartMs = FIRST_RESTART_MS;

  while (!signal.aborted) {
    const child = startPonder(settings, plan, schema, options);
    signal.addEventListener("abort", child.stop, { once: true });

    const outcome = await index.follow(child.exited);
    if (outcome === "superseded") await child.stop();
    const exit = await child.exited;
    signal.removeEventListener("abort", child.stop);
    await database.releasePonderLock(schema).catch(() => {});
    if (outcome === "superseded" || signal.aborted) return;

    const reason = exit.signal ? `was ended by ${exit.signal}` : `ended with code ${exit.code}`;
    if (!restart) throw new Error(`The indexer ${reason}.`);
    if (outcome === "ended after catching up") restartMs = FIRST_RESTART_MS;
    log(`The indexer ${reason}; starting it again in ${restartMs / 1000} s.`);
    await sleep(restartMs, undefined, { signal }).catch(() => {});
    restartMs = Math.min(restartMs * 2, LONGEST_RESTART_MS);
  }
};

const startPonder = (
  { host, port, logLevel }: IndexerSettings,
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

/** An index on its way into the shard's views, and out of them. */
class ServedIndex {
  readonly #shard: string;
  readonly #schema: string;
  readonly #chainIds: number[];
  readonly #database: IndexerDatabase;
  readonly #options: Options;
  /** Whether the views have shown it while this indexer ran. */
  #hasServed = false;

  constructor(shard: string, schema: string, plan: IndexPlan, database: IndexerDatabase, options: Options) {
    this.#shard = shard;
    this.#schema = schema;
    this.#chainIds = plan.chains.map(({ chainId }) => chainId);
    this.#database = database;
    this.#options = options;
  }

  /** Follows the index while its Ponder runs. */
  async follow(exited: Promise<unknown>): Promise<"ended" | "ended after catching up" | "superseded"> {
    const ended = new AbortController();
    exited.then(() => ended.abort());

    let hasCaughtUp = false;
    let trouble: string | undefined;
    while (!ended.signal.aborted) {
      try {
        const served = await this.#database.servedSchema(this.#shard);
        if (this.#hasServed && served !== this.#schema) {
          this.#options.log(`${this.#schema} is superseded: shard "${this.#shard}" shows ${served}. Stopping.`);
          return "superseded";
        }
        if (!hasCaughtUp && (await this.#database.hasCaughtUp(this.#schema, this.#chainIds, served))) {
          if (served !== this.#schema) await this.#database.serve(this.#shard, this.#schema);
          hasCaughtUp = true;
          this.#hasServed = true;
          this.#options.onReady?.(this.#schema);
        }
        if (hasCaughtUp) await this.#dropSuperseded();
        trouble = undefined;
      } catch (error) {
        // Once for each trouble, not twice a second while it lasts.
        const { message } = error as Error;
        if (message !== trouble) this.#options.log(`Cannot follow the index in the database: ${message}`);
        trouble = message;
      }
      const pause = hasCaughtUp ? WATCH_MS : CATCHING_UP_WATCH_MS;
      await sleep(pause, undefined, { signal: ended.signal }).catch(() => {});
    }
    return hasCaughtUp ? "ended after catching up" : "ended";
  }

  async #dropSuperseded() {
    for (const dropped of await this.#database.dropSuperseded(this.#shard, this.#schema)) {
      this.#options.log(`Dropped ${dropped}: ${this.#schema} has taken its place.`);
    }
  }
}
