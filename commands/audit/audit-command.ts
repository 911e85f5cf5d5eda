import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { createChainClient } from "../../indexer/rpc/chain-rpc.ts";
import { LimitedRpc } from "../../indexer/verification/limited-rpc.ts";
import { findDatabase } from "../../local/find-database.ts";
import { describeError, rejectOnAbort } from "../../process/program.ts";
import { type Report, runAudit } from "./run-audit.ts";
import { parseAuditSettings } from "./settings.ts";

const AGREE = 0;
const DIFFER = 1;
/** Exit code of an audit that failed: it must not look like agreement. */
export const UNKNOWN = 2;

type Context = {
  environment: NodeJS.ProcessEnv;
  /** Prints a result for programs, to stdout. */
  print: (text: string) => void;
  /** Prints a message for people, to stderr. */
  say: (text: string) => void;
  signal: AbortSignal;
  wait?: (ms: number) => Promise<unknown>;
};

/**
 * Compares the index with the registries' own answers: `npm run audit`.
 * @returns the exit code
 */
export const auditCommand = async (args: string[], context: Context): Promise<number> => {
  const { environment, say, signal, wait = sleep } = context;
  try {
    const { network, rpcUrls, databaseUrl, sample, block } = parseAuditSettings(args, environment);
    const url = await findDatabase(databaseUrl);
    const { host, pathname } = new URL(url);
    say(`Database ${host}${pathname}`);
    const database = new pg.Client({
      connectionString: url,
      application_name: "audit",
      connectionTimeoutMillis: 10_000,
    });
    // A lost connection fails the next statement, whose error is reported.
    database.on("error", () => {});
    try {
      await database.connect();
      const rpc = new LimitedRpc(createChainClient(network.chainId, rpcUrls), wait);
      const report = await rejectOnAbort(signal, runAudit({ network, database, rpc, sample, block, say, wait }));
      return printReport(report, `Chain ${network.chainId} (${network.name})`, context);
    } finally {
      await database.end().catch(() => {});
    }
  } catch (error) {
    if (!signal.aborted) say(describeError(error));
    return UNKNOWN;
  }
};

const printReport = (
  { block, wallets, delegations, checks, differences, unread }: Report,
  chain: string,
  { print, say }: Pick<Context, "print" | "say">,
): number => {
  for (const line of differences) print(`${line}, at block ${block.number}.`);
  for (const line of unread) say(line);
  const compared = `${chain} at block ${block.number}: ${wallets} wallets, ${delegations} delegations and ${checks} checks compared`;
  if (differences.length > 0) {
    print(`${compared}, ${differences.length} differences.`);
    return DIFFER;
  }
  if (unread.length > 0) {
    say(`${compared}, but ${unread.length} lists could not be read. Name a node that allows longer calls.`);
    return UNKNOWN;
  }
  print(`${compared}, the index agrees with the chain.`);
  return AGREE;
};
