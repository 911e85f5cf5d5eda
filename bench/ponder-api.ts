import { join } from "node:path";
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { startNode } from "../stack/child.ts";
import { isUp } from "../stack/is-up.ts";
import { isPortFree } from "../stack/ports.ts";

const PONDER = join(import.meta.dirname, "../node_modules/ponder/dist/esm/bin/ponder.js");
const ROOT = join(import.meta.dirname, "ponder-api");
const HOST = "127.0.0.1";
const LONGEST_START_MS = 60_000;

type Options = {
  databaseUrl: string;
  /** The schema of an index: its tables, or a shard's views of them. */
  schema: string;
  port: number;
};

type PonderApi = {
  /** Of the process that answers: Ponder serves from one, and starts no others. */
  pid: number;
  stop: () => Promise<void>;
};

/**
 * Starts Ponder's own HTTP server with the API functions in `ponder-api/`, over an index that is there.
 * `ponder serve` takes any schema that has the tables, whatever build made them. It only reads: no lock, no
 * heartbeat, and its connections refuse to write.
 */
export const startPonderApi = async ({ databaseUrl, schema, port }: Options): Promise<PonderApi> => {
  // Ponder would quietly take the next one.
  if (!(await isPortFree(HOST, port))) throw new Error(`Port ${port}, for Ponder's API, is in use.`);

  const output = new PassThrough({ encoding: "utf8" });
  let printed = "";
  output.on("data", (text: string) => {
    printed = `${printed}${text}`.slice(-5_000);
  });
  const child = startNode(PONDER, ["serve", "--root", ROOT, "--schema", schema, "--hostname", HOST], {
    output,
    // To Ponder PORT counts for more than its own option.
    env: { ...process.env, PORT: String(port), DATABASE_URL: databaseUrl, PONDER_TELEMETRY_DISABLED: "true" },
  });

  let hasEnded = false;
  child.exited.then(() => {
    hasEnded = true;
  });
  const deadline = Date.now() + LONGEST_START_MS;
  while (!(await isUp(`http://${HOST}:${port}/health`))) {
    if (hasEnded || Date.now() > deadline) {
      await child.stop();
      throw new Error(`Ponder's API did not start:\n${printed}`);
    }
    await sleep(50);
  }
  return { pid: child.pid, stop: child.stop };
};
