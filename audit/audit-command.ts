import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { createChainClient } from "../indexer/chain-transport.ts";
import { findDatabase } from "../stack/find-database.ts";
import { describeError, orAborted } from "../stack/program.ts";
import { Rpc } from "./rpc.ts";
import { type Report, runAudit } from "./run-audit.ts";
import { parseAuditSettings } from "./settings.ts";

/** Exit codes. An audit that could not be made must not look like agreement. */
const AGREE = 0;
const DIFFER = 1;
export const UNKNOWN = 2;

type Surroundings = {
  environment: NodeJS.ProcessEnv;
  /** Prints a result, for programs. */
  print: (text: string) => void;
  /** Prints a note, for people. */
  say: (text: string) => void;
  signal: AbortSignal;
  wait?: (ms: number) => Promise<unknown>;
};

/**
 * Compares the index with the chain's own answers: `npm run audit`.
 * @returns the exit code
 */
export const auditCommand = async (args: string[], surroundings: Surroundings): Promise<number> => {
  const { environment, say, signal, wait = sleep } = surroundings;
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
    // A connection that is lost fails the next statement, which says so.
    database.on("error", () => {});
    try {
      await database.connect();
      const rpc = new Rpc(createChainClient(network.chainId, rpcUrls), wait);
      const report = await orAborted(signal, runAudit({ network, database, rpc, sample, block, say, wait }));
      return printReport(report, `Chain ${network.chainId} (${network.name})`, surroundings);
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
  { print, say }: Pick<Surroundings, "print" | "say">,
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
