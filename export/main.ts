import { join } from "node:path";
import { findDatabase } from "../stack/find-database.ts";
import { loadEnvFiles, runUntilStopped } from "../stack/program.ts";
import { parseOptionalDatabaseUrl } from "../stack/settings.ts";
import { exportDelegations, type Progress } from "./export-delegations.ts";
import { parseRequest } from "./request.ts";

// npm run export: the log of changes, or the delegations at a block, as a file.

const PROGRESS_MS = 2_000;

/** For people; there is nothing for programs but the file. */
const say = (text: string) => console.error(text);

const sizeOf = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
const countOf = (rows: number) => `${rows.toLocaleString("en")} row${rows === 1 ? "" : "s"}`;

const sayProgress = (): Progress => {
  let saidAt = Date.now();
  return ({ rows, bytes }) => {
    if (Date.now() < saidAt + PROGRESS_MS) return;
    saidAt = Date.now();
    say(rows === null ? sizeOf(bytes) : `${countOf(rows)}, ${sizeOf(bytes)}`);
  };
};

await runUntilStopped(async (signal) => {
  loadEnvFiles(join(import.meta.dirname, ".."));
  // Whoever interrupts it does not get a file: that is no success.
  signal.addEventListener("abort", () => {
    process.exitCode = 1;
  });
  const request = parseRequest(process.argv.slice(2));
  const url = await findDatabase(parseOptionalDatabaseUrl(process.env));
  const { host, pathname } = new URL(url);
  say(`Database ${host}${pathname}`);
  const { file, block, finalBlock, rows, bytes } = await exportDelegations(url, request, signal, sayProgress());
  say(`${file}: ${countOf(rows)}, ${sizeOf(bytes)}, of chain ${request.chainId} at block ${block}.`);
  if (BigInt(block) > BigInt(finalBlock)) {
    say(`Blocks after ${finalBlock} are not final: a reorg could undo what they changed.`);
  }
});
