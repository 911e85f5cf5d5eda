import { findDatabase } from "../stack/find-database.ts";
import { describeError } from "../stack/program.ts";
import { parseOptionalDatabaseUrl } from "../stack/settings.ts";
import { exportDelegations, type Progress } from "./export-delegations.ts";
import { parseRequest } from "./request.ts";

const PROGRESS_MS = 2_000;

type Surroundings = {
  environment: NodeJS.ProcessEnv;
  /** Prints a note, for people. Programs read the file. */
  say: (text: string) => void;
  /** When aborted, no file is written: that is no success. */
  signal: AbortSignal;
};

/**
 * Writes the log of changes, or the delegations at a block, to a file: `npm run export`.
 * @returns the exit code
 */
export const exportCommand = async (args: string[], { environment, say, signal }: Surroundings): Promise<number> => {
  try {
    const request = parseRequest(args);
    const url = await findDatabase(parseOptionalDatabaseUrl(environment));
    const { host, pathname } = new URL(url);
    say(`Database ${host}${pathname}`);
    const { file, block, finalBlock, rows, bytes } = await exportDelegations(url, request, signal, sayProgress(say));
    say(`${file}: ${countOf(rows)}, ${sizeOf(bytes)}, of chain ${request.chainId} at block ${block}.`);
    if (BigInt(block) > BigInt(finalBlock)) {
      say(`Blocks after ${finalBlock} are not final: a reorg could undo what they changed.`);
    }
    return 0;
  } catch (error) {
    if (!signal.aborted) say(describeError(error));
    return 1;
  }
};

const sizeOf = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
const countOf = (rows: number) => `${rows.toLocaleString("en")} row${rows === 1 ? "" : "s"}`;

const sayProgress = (say: (text: string) => void): Progress => {
  let saidAt = Date.now();
  return ({ rows, bytes }) => {
    if (Date.now() < saidAt + PROGRESS_MS) return;
    saidAt = Date.now();
    say(rows === null ? sizeOf(bytes) : `${countOf(rows)}, ${sizeOf(bytes)}`);
  };
};
