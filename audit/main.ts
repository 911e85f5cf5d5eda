import { join } from "node:path";
import pg from "pg";
import { createChainClient } from "../indexer/chain-transport.ts";
import { findDatabase } from "../stack/find-database.ts";
import { loadEnvFiles, orAborted, runUntilStopped } from "../stack/program.ts";
import { Rpc } from "./rpc.ts";
import { type Report, runAudit } from "./run-audit.ts";
import { parseAuditSettings } from "./settings.ts";

// npm run audit: compares the index with the chain's own answers.

const ROOT = join(import.meta.dirname, "..");

/** What it ends with. Where nothing was found out, nothing may seem right. */
const AGREE = 0;
const DIFFER = 1;
const UNKNOWN = 2;

/** For people, beside what is printed for programs. */
const say = (text: string) => console.error(text);

const print = ({ block, wallets, delegations, checks, differences, unread }: Report, chain: string): number => {
  for (const line of differences) console.log(`${line}, at block ${block.number}.`);
  for (const line of unread) say(line);
  const compared = `${chain} at block ${block.number}: ${wallets} wallets, ${delegations} delegations and ${checks} checks compared`;
  if (differences.length > 0) {
    console.log(`${compared}, ${differences.length} differences.`);
    return DIFFER;
  }
  if (unread.length > 0) {
    say(`${compared}, but ${unread.length} lists could not be read. Name a node that allows longer calls.`);
    return UNKNOWN;
  }
  console.log(`${compared}, the index agrees with the chain.`);
  return AGREE;
};

await runUntilStopped(async (signal) => {
  process.exitCode = UNKNOWN;
  loadEnvFiles(ROOT);
  const { network, rpcUrls, databaseUrl, sample, block } = parseAuditSettings(process.argv.slice(2), process.env);
  const url = await findDatabase(databaseUrl);
  const { host, pathname } = new URL(url);
  say(`Database ${host}${pathname}`);
  const database = new pg.Client({ connectionString: url, application_name: "audit", connectionTimeoutMillis: 10_000 });
  // A connection that is lost fails the next statement, which says so.
  database.on("error", () => {});
  await database.connect();
  const rpc = new Rpc(createChainClient(network.chainId, rpcUrls));
  const report = await orAborted(signal, runAudit({ network, database, rpc, sample, block, say }));
  process.exitCode = print(report, `Chain ${network.chainId} (${network.name})`);
  await database.end();
});
