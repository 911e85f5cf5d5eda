import { createWriteStream } from "node:fs";
import { join, relative } from "node:path";
import pg from "pg";
import { type ApiSettings, apiPort, parseApiSettings } from "../api/settings.ts";
import { indexerPort } from "../indexer/run-indexer.ts";
import { type IndexerSettings, parseIndexerSettings } from "../indexer/settings.ts";
import { untilUp } from "../process/is-up.ts";
import { refuseBusyPorts } from "../process/ports.ts";
import { claimPidFile, runUntilStopped, untilAborted } from "../process/program.ts";
import { networks } from "../registry/networks.ts";
import type { LocalChain } from "./chain.ts";
import { compileContracts } from "./compile-contracts.ts";
import { SANDBOX_DATA as DATA } from "./data-folders.ts";
import { startEmbeddedPostgres } from "./embedded-postgres.ts";
import { BLOCK_SECONDS, readChainPorts, sendSamplesAndMine, startChains } from "./sample-chains.ts";
import { spawnApi } from "./spawn-api.ts";
import { Stack } from "./stack.ts";
import { startLocalIndexer } from "./start-local-indexer.ts";

const startedAt = Date.now();
const elapsed = () => ((Date.now() - startedAt) / 1000).toFixed(1);
const say = (message: string) => console.log(`${elapsed().padStart(6)} s  ${message}`);

const readSettings = () => {
  const chains = readChainPorts(process.env);
  const listRpcs = (prefix: string) =>
    Object.fromEntries(chains.map(({ chainId, port }) => [`${prefix}${chainId}`, `http://127.0.0.1:${port}`]));
  const rpcs = listRpcs("PONDER_RPC_URL_");
  const indexer = parseIndexerSettings({
    INDEXER_PORT: process.env.INDEXER_PORT,
    LOG_LEVEL: process.env.LOG_LEVEL,
    POLLING_INTERVAL_MS: process.env.POLLING_INTERVAL_MS,
    ...rpcs,
    ...Object.fromEntries(chains.map(({ chainId }) => [`START_BLOCK_${chainId}`, "0"])),
  });
  // The sandbox has one shard in its own database, whatever the environment says.
  const apiEnv = {
    ...process.env,
    ...rpcs,
    ...listRpcs("SIGN_IN_RPC_URL_"),
    ...listRpcs("PROOF_RPC_URL_"),
    PUBLIC_URL: "",
    DATABASE_READ_URL: "",
    HOST: "127.0.0.1",
    INDEX_SCHEMAS: indexer.shard,
    MAX_INDEX_LAG_SECONDS: "",
  };
  const api = parseApiSettings(apiEnv);
  return { indexer, api, apiEnv: { ...apiEnv, PUBLIC_URL: `http://127.0.0.1:${api.port}` }, chains };
};

const logFile = (name: string) => createWriteStream(join(DATA, `${name}.log`));

const startPostgres = async () => {
  const postgres = await startEmbeddedPostgres({ directory: join(DATA, "postgres"), disposable: true });
  // The server is not our child process: an open connection shows when it exits.
  const connection = new pg.Client(postgres.url);
  const exited = new Promise<never>((_, reject) => {
    connection.on("error", reject);
  });
  await connection.connect();
  const stop = async () => {
    await connection.end();
    await postgres.stop();
  };
  return { url: postgres.url, exited, stop };
};

const printReady = (
  databaseUrl: string,
  { port }: IndexerSettings,
  api: ApiSettings,
  chains: readonly LocalChain[],
) => {
  const [vault, hot] = chains[0]?.accounts ?? [];
  const url = `http://127.0.0.1:${api.port}`;
  const chainRows = chains.map(
    ({ chainId, url }) =>
      `  ${`chain ${chainId}`.padEnd(12)}${url}   ${networks.get(chainId)?.name}, a block every ${BLOCK_SECONDS} s`,
  );
  console.log(`
Ready after ${elapsed()} s. Sample delegations of every kind are indexed.

  ${"explorer".padEnd(12)}${url}/?wallet=${vault}&chainId=1&view=out
  ${"API".padEnd(12)}${url}   reference at /docs, freshness at /status
${chainRows.join("\n")}
  ${"indexer".padEnd(12)}http://127.0.0.1:${port}   GraphQL at /graphql, SQL at /sql, progress at /status
  ${"Postgres".padEnd(12)}${databaseUrl}   for data teams: schema "analytics"
  ${"logs".padEnd(12)}${relative(process.cwd(), DATA)}/*.log

Cold wallet ${vault}
 hot wallet ${hot}

Try next:

  May the hot wallet act for the cold one?
  curl "${url}/registry/v2/check/all?to=${hot}&from=${vault}"

  All delegations of the cold wallet
  curl "${url}/registry/v2/${vault}"

  More than ${api.limit.requests} requests in ${api.limit.windowMs / 1000} s
  DATABASE_URL="${databaseUrl}" npm run keys -- create --name mine

  What happened, and when
  psql "${databaseUrl}" -c 'select * from analytics.changes order by chain_id, block_number'

Ctrl-C ends everything.
`);
};

await runUntilStopped(async (signal) => {
  const { indexer, api, apiEnv, chains } = readSettings();
  await refuseBusyPorts([
    ...chains.map(({ chainId, port }) => ({
      host: "127.0.0.1",
      port,
      use: `chain ${chainId}`,
      setting: "SANDBOX_PORT",
    })),
    indexerPort(indexer),
    apiPort(api),
  ]);
  // A second sandbox would delete the database of the first.
  const { release } = claimPidFile(join(DATA, "dev.pid"), "local/dev.ts");

  const stack = new Stack();
  const run = async () => {
    say("Starting Postgres and two local chains…");
    const starting = stack.add("Postgres", startPostgres);
    starting.catch(() => {});
    const code = await compileContracts();
    const localChains = await startChains(stack, chains, code);
    const { url } = await starting;

    say("Sending sample delegations of every kind…");
    await sendSamplesAndMine(localChains, code);

    say("Indexing…");
    const output = logFile("indexer");
    await stack.add("The indexer", () =>
      startLocalIndexer(indexer, { databaseUrl: url, log: say, output, restart: false }),
    );
    await stack.add("The API", () => spawnApi({ ...apiEnv, DATABASE_URL: url }, logFile("api")));
    // Ready means that the index includes all samples.
    await untilUp(`http://127.0.0.1:${api.port}/ready`);
    printReady(url, indexer, api, localChains);
    await stack.failed;
  };

  try {
    await Promise.race([run(), stack.failed, untilAborted(signal)]);
  } finally {
    say("Stopping…");
    await stack.stop();
    release();
    say("Stopped.");
  }
});
