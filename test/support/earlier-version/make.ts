import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import pg from "pg";
import { startNode } from "../../../process/child.ts";
import { isUp } from "../../../process/is-up.ts";
import { findFreePort } from "../../../process/ports.ts";
import { captureOutput, ROOT } from "../run.ts";
import { waitUntil, waitUntilIndexed } from "../setup.ts";
import { startSystemPostgres } from "../system-postgres.ts";
import { CHAIN_ID, startEarlierChain } from "./chain.ts";

// Makes the database of the earlier version for test/slow/faults/upgrade.test.ts: checks out its commit, runs its indexer,
// its API and its `npm run keys`, and dumps what they have stored. Needs this repository's history, and Debian's Postgres.
// Run it after a change to ./chain.ts or to the contracts: node --import tsx test/support/earlier-version/make.ts

/** The first version with API keys: 0.1.0, as it began. */
const COMMIT = "c068ab9";

const checkout = mkdtempSync(join(tmpdir(), "delegation-registry-earlier-"));
const archive = execFileSync("git", ["archive", COMMIT], { cwd: ROOT, maxBuffer: 2 ** 28 });
execFileSync("tar", ["-x", "-C", checkout], { input: archive });
symlinkSync(join(ROOT, "node_modules"), join(checkout, "node_modules"));
mkdirSync(join(checkout, ".data"));

const { chain } = await startEarlierChain();
const postgres = await startSystemPostgres();
const { output, printed } = captureOutput();
const [indexerPort, apiPort] = [await findFreePort(), await findFreePort()];
const env = {
  ...process.env,
  DATABASE_URL: postgres.url,
  [`PONDER_RPC_URL_${CHAIN_ID}`]: chain.url,
  [`START_BLOCK_${CHAIN_ID}`]: "0",
  INDEXER_PORT: String(indexerPort),
  HOST: "127.0.0.1",
  PORT: String(apiPort),
  METRICS_PORT: String(await findFreePort()),
  MAX_INDEX_LAG_SECONDS: "1000000000",
};
const start = (script: string) => startNode(join(checkout, script), [], { output, env });
const runKeys = (...args: string[]) =>
  execFileSync("node", ["--import", "tsx", "api/keys/main.ts", ...args], {
    cwd: checkout,
    env,
    encoding: "utf8",
  }).trim();
const indexer = start("indexer/main.ts");
const database = new pg.Client(postgres.url);
try {
  await database.connect();
  await waitUntilIndexed(database, chain);
  const [key, revokedKey] = [runKeys("create", "--name", "Example app"), runKeys("create", "--name", "Revoked")];
  const api = start("api/main.ts");
  const url = `http://127.0.0.1:${apiPort}`;
  await waitUntil("the API is ready", () => isUp(`${url}/ready`));
  for (const used of [key, revokedKey]) {
    const list = `${url}/registry/v2/${chain.accounts[0]}?chainId=${CHAIN_ID}`;
    const { status } = await fetch(list, { headers: { "X-API-KEY": used } });
    if (status !== 200) throw new Error(`The earlier version answered ${status}.`);
  }
  runKeys("revoke", revokedKey);
  await api.stop();
  await indexer.stop();

  const dump = await postgres.runClient("pg_dump", "--inserts", "--no-owner", postgres.url);
  // psql's own commands: the test sends the rest as SQL.
  const text = dump.replaceAll(/^\\.*$/gm, "");
  writeFileSync(join(import.meta.dirname, "database.sql.gz"), gzipSync(text, { level: 9 }));
  writeFileSync(join(import.meta.dirname, "keys.json"), `${JSON.stringify({ key, revokedKey }, null, 2)}\n`);
} catch (error) {
  console.error(printed());
  throw error;
} finally {
  await database.end();
  await indexer.stop();
  await postgres.stop();
  await chain.stop();
  rmSync(checkout, { recursive: true, force: true });
}
