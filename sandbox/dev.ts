import { createWriteStream } from "node:fs";
import { join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { runIndexer } from "../indexer/run-indexer.ts";
import { type IndexerSettings, parseIndexerSettings } from "../indexer/settings.ts";
import { networks } from "../registry/networks.ts";
import { startEmbeddedPostgres } from "../stack/embedded-postgres.ts";
import { isPortFree } from "../stack/ports.ts";
import { claim, runUntilStopped } from "../stack/program.ts";
import { SettingsError } from "../stack/settings.ts";
import { type Part, Stack } from "../stack/stack.ts";
import { type LocalChain, startLocalChain } from "./chain.ts";
import { compileContracts } from "./contracts.ts";
import { sendSamples } from "./samples.ts";

const ROOT = join(import.meta.dirname, "..");
const DATA = process.env.SANDBOX_DATA || join(ROOT, ".data/sandbox");
const BLOCK_SECONDS = 2;

const startedAt = Date.now();
const elapsed = () => ((Date.now() - startedAt) / 1000).toFixed(1);
const say = (message: string) => console.log(`${elapsed().padStart(6)} s  ${message}`);

const readSettings = () => {
  const firstPort = Number(process.env.SANDBOX_PORT || 8545);
  if (!Number.isInteger(firstPort) || firstPort < 1 || firstPort > 65_534) {
    throw new SettingsError(["SANDBOX_PORT must be a whole number from 1 to 65534."]);
  }
  const chains = [1, 137].map((chainId, index) => ({ chainId, port: firstPort + index }));
  const settings = parseIndexerSettings({
    INDEXER_PORT: process.env.INDEXER_PORT,
    LOG_LEVEL: process.env.LOG_LEVEL,
    POLLING_INTERVAL_MS: process.env.POLLING_INTERVAL_MS,
    ...Object.fromEntries(
      chains.flatMap(({ chainId, port }) => [
        [`PONDER_RPC_URL_${chainId}`, `http://127.0.0.1:${port}`],
        [`START_BLOCK_${chainId}`, "0"],
      ]),
    ),
  });
  return { settings, chains };
};

const refuseBusyPorts = async (chains: { chainId: number; port: number }[], indexerPort: number) => {
  const wanted = [
    ...chains.map(({ chainId, port }) => ({ port, use: `chain ${chainId}`, setting: "SANDBOX_PORT" })),
    { port: indexerPort, use: "the indexer", setting: "INDEXER_PORT" },
  ];
  const problems: string[] = [];
  for (const { port, use, setting } of wanted) {
    if (!(await isPortFree("127.0.0.1", port))) {
      problems.push(`Port ${port}, for ${use}, is in use. End what listens there, or set another ${setting}.`);
    }
  }
  if (problems.length > 0) throw new SettingsError(problems);
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
  return { url: postgres.url, connection, ended, stop };
};

const startIndexer = (settings: IndexerSettings, databaseUrl: string): Part => {
  const stopping = new AbortController();
  const ended = runIndexer(settings, {
    databaseUrl,
    log: say,
    output: logFile("indexer"),
    restart: false,
    signal: stopping.signal,
  });
  return {
    ended,
    stop: async () => {
      stopping.abort();
      await ended.catch(() => {});
    },
  };
};

/** Resolves when all that the chains hold by now is indexed. */
const caughtUp = async (connection: pg.Client, { shard }: IndexerSettings, chains: readonly LocalChain[]) => {
  for (const { chainId, client } of chains) {
    const head = await client.getBlockNumber();
    for (;;) {
      const { rows } = await connection
        .query(`select 1 from ${shard}.indexed_block where chain_id = $1 and number >= $2`, [chainId, head])
        .catch(() => ({ rows: [] }));
      if (rows.length > 0) break;
      await sleep(200);
    }
  }
};

const printReady = (databaseUrl: string, { shard, port }: IndexerSettings, chains: readonly LocalChain[]) => {
  const [vault, hot] = chains[0]?.accounts ?? [];
  const query = `{ delegationV2s(where: {vault: \\"${vault?.toLowerCase()}\\"}) { items { chainId type delegate contract tokenId rights amount } } }`;
  const chainRows = chains.map(
    ({ chainId, url }) =>
      `  ${`chain ${chainId}`.padEnd(12)}${url}   ${networks.get(chainId)?.name}, a block every ${BLOCK_SECONDS} s`,
  );
  console.log(`
Ready after ${elapsed()} s. Sample delegations of every kind are indexed.

${chainRows.join("\n")}
  ${"indexer".padEnd(12)}http://127.0.0.1:${port}   GraphQL at /graphql, SQL at /sql, progress at /status
  ${"Postgres".padEnd(12)}${databaseUrl}   tables in schema "${shard}"
  ${"logs".padEnd(12)}${relative(process.cwd(), DATA)}/*.log

Cold wallet ${vault}
 hot wallet ${hot}

Try next:

  curl -s http://127.0.0.1:${port}/graphql -H 'content-type: application/json' \\
    -d '{"query":"${query}"}'

  psql "${databaseUrl}" -c 'select * from ${shard}.delegation_change order by block_number'

Ctrl-C ends everything.
`);
};

await runUntilStopped(async (signal) => {
  const { settings, chains } = readSettings();
  await refuseBusyPorts(chains, settings.port);
  // One sandbox at a time: a second one would take the first one's database away.
  const { release } = claim(join(DATA, "dev.pid"), "sandbox/dev.ts");

  const stack = new Stack();
  const run = async () => {
    say("Starting Postgres and two local chains…");
    const starting = stack.add("Postgres", startPostgres);
    starting.catch(() => {});
    const code = await compileContracts();
    const localChains = await Promise.all(
      chains.map(({ chainId, port }) =>
        stack.add(`Chain ${chainId}`, async () => {
          const chain = await startLocalChain(chainId, port, code, { output: logFile(`chain-${chainId}`) });
          return { ...chain, ended: chain.exited };
        }),
      ),
    );
    const { url, connection } = await starting;

    say("Sending sample delegations of every kind…");
    await Promise.all(localChains.map((chain) => sendSamples(chain, code)));
    await Promise.all(localChains.map(({ client }) => client.setIntervalMining({ interval: BLOCK_SECONDS })));

    say("Indexing…");
    await stack.add("The indexer", async () => startIndexer(settings, url));
    await caughtUp(connection, settings, localChains);
    printReady(url, settings, localChains);
    await stack.failed;
  };

  const stopped = new Promise<void>((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
  try {
    await Promise.race([run(), stack.failed, stopped]);
  } finally {
    say("Stopping…");
    await stack.stop();
    release();
    say("Stopped.");
  }
});
