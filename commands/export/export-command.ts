import { findDatabase } from "../../local/find-database.ts";
import { describeError } from "../../process/program.ts";
import { parseOptionalDatabaseUrl } from "../../process/settings.ts";
import { exportDelegations } from "./export-delegations.ts";
import { parseRequest } from "./request.ts";
import type { Progress } from "./rows.ts";

const PROGRESS_MS = 2_000;

type Context = {
  environment: NodeJS.ProcessEnv;
  /** Prints a message for people, to stderr. */
  say: (text: string) => void;
  /** Cancels the export: no file is written, and the exit code is 1. */
  signal: AbortSignal;
};

/**
 * Writes the log of changes, or the delegations at a block, to a file: `npm run export`.
 * @returns the exit code
 */
export const exportCommand = async (args: string[], { environment, say, signal }: Context): Promise<number> => {
  try {
    const request = parseRequest(args);
    const url = await findDatabase(parseOptionalDatabaseUrl(environment));
    const { host, pathname } = new URL(url);
    say(`Database ${host}${pathname}`);
    const onProgress = createProgress(say);
    const { file, block, finalBlock, rows, bytes } = await exportDelegations(url, request, signal, onProgress);
    say(`${file}: ${formatRows(rows)}, ${formatSize(bytes)}, of chain ${request.chainId} at block ${block}.`);
    if (BigInt(block) > BigInt(finalBlock)) {
      say(`Blocks after ${finalBlock} are not final: a reorg could revert their changes.`);
    }
    return 0;
  } catch (error) {
    if (!signal.aborted) say(describeError(error));
    return 1;
  }
};

const formatSize = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
const formatRows = (rows: number) => `${rows.toLocaleString("en")} row${rows === 1 ? "" : "s"}`;

const createProgress = (say: (text: string) => void): Progress => {
  let printedAt = Date.now();
  return ({ rows, bytes }) => {
    if (Date.now() < printedAt + PROGRESS_MS) return;
    printedAt = Date.now();
    say(rows === null ? formatSize(bytes) : `${formatRows(rows)}, ${formatSize(bytes)}`);
  };
};
