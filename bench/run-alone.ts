import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { startEmbeddedPostgres } from "../stack/embedded-postgres.ts";
import { orAborted, runUntilStopped } from "../stack/program.ts";
import type { Comparison } from "./comparison.ts";
import { DATA } from "./database.ts";

/** Where a measurement's file is the program: runs it over a Postgres of its own, and prints what it found. */
export const runAlone = async (
  moduleUrl: string,
  measure: (serverUrl: string) => Promise<Comparison[]>,
): Promise<void> => {
  if (moduleUrl !== pathToFileURL(process.argv[1] ?? "").href) return;
  await runUntilStopped(async (signal) => {
    const postgres = await startEmbeddedPostgres({ directory: join(DATA, "postgres"), disposable: true });
    const comparisons = await orAborted(signal, measure(postgres.url)).finally(postgres.stop);
    console.log(JSON.stringify(comparisons, null, 2));
  });
};
