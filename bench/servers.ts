import { join } from "node:path";
import type { Writable } from "node:stream";
import pg from "pg";
import { generateKey, hashKey, prefixOf } from "../api/keys/api-key.ts";
import { spawnApi } from "../local/spawn-api.ts";
import { type Child, startNode } from "../process/child.ts";
import { untilUp } from "../process/is-up.ts";
import { findFreePort } from "../process/ports.ts";
import { startPonderApi } from "./ponder-api.ts";
import { logFile } from "./with-database.ts";

const MEMORY_API = join(import.meta.dirname, "memory-api.ts");
const BASELINES = join(import.meta.dirname, "baselines.ts");
const START_TIMEOUT_MS = 60_000;
/** v1 has no keys. This limit is counted like any other, and never reached. */
export const HIGH_RATE_LIMIT = { RATE_LIMIT_REQUESTS: "1000000", RATE_LIMIT_WINDOW_SECONDS: "1" };

/** A process that answers over HTTP. */
export type Server = { pid: number; port: number };

type ApiServer = Server & { metricsPort: number };

type Settings = Record<string, string>;

/** Starts and stops the servers to measure. */
export class Servers {
  readonly #children: Pick<Child, "stop">[] = [];

  /** Starts the service with its default settings, as people run it. */
  startApi(databaseUrl: string, settings: Settings = {}): Promise<ApiServer> {
    return this.#startApi(spawnApi, databaseUrl, settings);
  }

  /** Starts the service without database queries for checks. */
  startMemoryApi(databaseUrl: string, settings: Settings = {}): Promise<ApiServer> {
    return this.#startApi((env, output) => startNode(MEMORY_API, [], { env, output }), databaseUrl, settings);
  }

  async #startApi(
    spawn: (env: NodeJS.ProcessEnv, output: Writable) => Child,
    databaseUrl: string,
    settings: Settings,
  ): Promise<ApiServer> {
    const [port, metricsPort] = [await findFreePort(), await findFreePort()];
    const env = {
      ...process.env,
      DATABASE_URL: databaseUrl,
      HOST: "127.0.0.1",
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
      // The chain of a data set has no new blocks.
      MAX_INDEX_LAG_SECONDS: "1000000000",
      ...settings,
    };
    const child = spawn(env, logFile(`api-${port}`));
    this.#children.push(child);
    await untilUp(`http://127.0.0.1:${port}/ready`, START_TIMEOUT_MS);
    return { pid: child.pid, port, metricsPort };
  }

  /** Starts plain Hono routes. */
  async startBaselines(databaseUrl: string): Promise<Server> {
    const port = await findFreePort();
    const schema = await readSchema(databaseUrl);
    const args = ["--port", String(port), "--database-url", databaseUrl, "--schema", schema];
    const child = startNode(BASELINES, args, { output: logFile(`baselines-${port}`), env: process.env });
    this.#children.push(child);
    await untilUp(`http://127.0.0.1:${port}/bare`, START_TIMEOUT_MS);
    return { pid: child.pid, port };
  }

  /** Starts Ponder's own API functions. */
  async startPonder(databaseUrl: string): Promise<Server> {
    const port = await findFreePort();
    const ponder = await startPonderApi({ databaseUrl, schema: await readSchema(databaseUrl), port });
    this.#children.push(ponder);
    return { pid: ponder.pid, port };
  }

  async stop(): Promise<void> {
    for (const child of this.#children) await child.stop();
  }
}

const queryOnce = async (databaseUrl: string, text: string, values: string[] = []) => {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const { rows } = await client.query(text, values);
  await client.end();
  return rows;
};

const readSchema = async (databaseUrl: string): Promise<string> =>
  (await queryOnce(databaseUrl, "select schema from indexer.shard"))[0].schema;

/** Creates an API key in a data set. */
export const createKey = async (databaseUrl: string): Promise<string> => {
  const key = generateKey();
  const text = "insert into service.api_key (name, prefix, hash) values ('bench', $1, $2)";
  await queryOnce(databaseUrl, text, [prefixOf(key), hashKey(key)]);
  return key;
};
