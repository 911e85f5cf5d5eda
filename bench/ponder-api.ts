import { join } from "node:path";
import { PassThrough } from "node:stream";
import { startNode } from "../process/child.ts";
import { untilUp } from "../process/is-up.ts";
import { isPortFree } from "../process/ports.ts";

const PONDER = join(import.meta.dirname, "../node_modules/ponder/dist/esm/bin/ponder.js");
const ROOT = join(import.meta.dirname, "ponder-api");
const HOST = "127.0.0.1";
const START_TIMEOUT_MS = 60_000;

type Options = {
  databaseUrl: string;
  /** Schema of an index, or of a shard's views. */
  schema: string;
  port: number;
};

type PonderApi = {
  /** The only process: Ponder starts no others. */
  pid: number;
  stop: () => Promise<void>;
};

/**
 * Starts Ponder's own HTTP server with the API functions in `ponder-api/`, over an existing index.
 * `ponder serve` accepts any schema that has the tables, whatever build created them. It only reads: no lock, no
 * heartbeat, and read-only connections.
 */
export const startPonderApi = async ({ databaseUrl, schema, port }: Options): Promise<PonderApi> => {
  // Ponder would silently use the next port.
  if (!(await isPortFree(HOST, port))) throw new Error(`Port ${port}, for Ponder's API, is in use.`);

  const output = new PassThrough({ encoding: "utf8" });
  let printed = "";
  output.on("data", (text: string) => {
    printed = `${printed}${text}`.slice(-5_000);
  });
  const child = startNode(PONDER, ["serve", "--root", ROOT, "--schema", schema, "--hostname", HOST], {
    output,
    // Ponder prefers PORT over its own option.
    env: { ...process.env, PORT: String(port), DATABASE_URL: databaseUrl, PONDER_TELEMETRY_DISABLED: "true" },
  });

  const exited = child.exited.then(() => {
    throw new Error("It has exited.");
  });
  try {
    await Promise.race([untilUp(`http://${HOST}:${port}/health`, START_TIMEOUT_MS), exited]);
  } catch (cause) {
    await child.stop();
    throw new Error(`Ponder's API did not start:\n${printed}`, { cause });
  }
  return { pid: child.pid, stop: child.stop };
};
