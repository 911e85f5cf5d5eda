import { createWriteStream } from "node:fs";
import { join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { startApiProcess } from "../api/process.ts";
import { type ApiSettings, apiPort, parseApiSettings } from "../api/settings.ts";
import { indexerPort, runIndexer } from "../indexer/run-indexer.ts";
import { type IndexerSettings, parseIndexerSettings } from "../indexer/settings.ts";
import { networks } from "../registry/networks.ts";
import { SANDBOX_DATA as DATA } from "../stack/data-folders.ts";
import { startEmbeddedPostgres } from "../stack/embedded-postgres.ts";
import { isUp } from "../stack/is-up.ts";
import { refuseBusyPorts } from "../stack/ports.ts";
import { claim, runUntilStopped, untilAborted } from "../stack/program.ts";
import { type Part, runPart, Stack } from "../stack/stack.ts";
import type { LocalChain } from "./chain.ts";
import { compileContracts } from "./contracts.ts";
import { BLOCK_SECONDS, bringToLife, readChainPorts, startChains } from "./sample-chains.ts";

const startedAt = Date.now();
const elapsed = () => ((Date.now() - startedAt) / 1000).toFixed(1);
const say = (message: string) => console.log(`${elapsed().padStart(6)} s  ${message}`);

const readSettings = () => {
  const chains = readChainPorts(process.env);
  const rpcs = Object.fromEntries(
    chains.map(({ chainId, port }) => [`PONDER_RPC_URL_${chainId}`, `http://127.0.0.1:${port}`]),
  );
  const settings = parseIndexerSettings({
    INDEXER_PORT: process.env.INDEXER_PORT,
    LOG_LEVEL: process.env.LOG_LEVEL,
    POLLING_INTERVAL_MS: process.env.POLLING_INTERVAL_MS,
    ...rpcs,
    ...Object.fromEntries(chains.map(({ chainId }) => [`START_BLOCK_${chainId}`, "0"])),
  });
  // Beside an indexer that reads from these chains there is nothing but its own shard to answer from.
  const api = parseApiSettings({
    ...process.env,
    ...rpcs,
    PUBLIC_URL: undefined,
    DATABASE_READ_URL: undefined,
    HOST: "127.0.0.1",
    INDEX_SCHEMAS: settings.shard,
    MAX_INDEX_LAG_SECONDS: undefined,
  });
  return { settings, api, chains };
};

const logFile = (name: string) => createWriteStream(join(DATA, `${name}.log`));

const startPostgres = async () => {
  const postgres = await startEmbeddedPostgres({ directory: join(DATA, "postgres"), disposable: true });
  // The server is not our child: an open connection tells when it ends.
  const connection = new pg.Client(postgres.url);
  const ended = new Promise<never>((_, reject) => {
    connection.on("error", reject);
  });
  await connection.connect();
  const stop = async () => {
    await connection.end();
    await postgres.stop();
  };
  return { url: postgres.url, ended, stop };
};

const startIndexer = (settings: IndexerSettings, databaseUrl: string): Part =>
  runPart((signal) =>
    runIndexer(settings, { databaseUrl, log: say, output: logFile("indexer"), restart: false, signal }),
  );

const startApi = async (settings: ApiSettings, databaseUrl: string): Promise<Part> => {
  const { stop, exited } = startApiProcess(settings, databaseUrl, logFile("api"));
  return { ended: exited, stop };
};

/** Resolves when the API answers for every chain: by then the index has all that the chains held when it began. */
const apiReady = async ({ port }: ApiSettings) => {
  while (!(await isUp(`http://127.0.0.1:${port}/ready`))) await sleep(200);
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
  const { settings, api, chains } = readSettings();
  await refuseBusyPorts([
    ...chains.map(({ chainId, port }) => ({
      host: "127.0.0.1",
      port,
      use: `chain ${chainId}`,
      setting: "SANDBOX_PORT",
    })),
    indexerPort(settings),
    apiPort(api),
  ]);
  // One sandbox at a time: a second one would take the first one's database away.
  const { release } = claim(join(DATA, "dev.pid"), "sandbox/dev.ts");

  const stack = new Stack();
  const run = async () => {
    say("Starting Postgres and two local chains…");
    const starting = stack.add("Postgres", startPostgres);
    starting.catch(() => {});
    const code = await compileContracts();
    const localChains = await startChains(stack, chains, code);
    const { url } = await starting;

    say("Sending sample delegations of every kind…");
    await bringToLife(localChains, code);

    say("Indexing…");
    await stack.add("The indexer", async () => startIndexer(settings, url));
    await stack.add("The API", () => startApi(api, url));
    await apiReady(api);
    printReady(url, settings, api, localChains);
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
