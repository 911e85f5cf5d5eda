import { parseIndexerSettings } from "../indexer/settings.ts";
import { type LocalChain, startLocalChain } from "../local/chain.ts";
import { compileContracts } from "../local/compile-contracts.ts";
import { spawnApi } from "../local/spawn-api.ts";
import { Stack } from "../local/stack.ts";
import { startLocalIndexer } from "../local/start-local-indexer.ts";
import { untilUp } from "../process/is-up.ts";
import { findFreePort } from "../process/ports.ts";
import { logFile, withDatabase } from "./with-database.ts";

export const CHAIN_ID = 1;

type Options = {
  /** A Postgres server on which databases can be created and dropped. */
  serverUrl: string;
  /** Of the database and the log files. */
  name: string;
  log: (message: string) => void;
};

type LiveStack = { chain: LocalChain; apiUrl: string; databaseUrl: string; pollingIntervalMs: number };

/** Runs a function with a local chain, its indexer and the API. */
export const withLiveStack = <T>(
  { serverUrl, name, log }: Options,
  run: (stack: LiveStack) => Promise<T>,
): Promise<T> =>
  withDatabase(serverUrl, name, async (databaseUrl) => {
    const stack = new Stack();
    try {
      const chain = await stack.add("The chain", startChain);
      const settings = await createIndexerSettings(chain);
      const output = logFile(`${name}-indexer`);
      await stack.add("The indexer", () => startLocalIndexer(settings, { databaseUrl, log, output, restart: false }));
      const apiPort = await findFreePort();
      const apiEnv = await createApiEnv(databaseUrl, apiPort, chain);
      await stack.add("The API", () => spawnApi(apiEnv, logFile(`${name}-api`)));
      const apiUrl = `http://127.0.0.1:${apiPort}`;
      await Promise.race([untilUp(`${apiUrl}/ready`), stack.failed]);
      const { pollingIntervalMs } = settings;
      return await Promise.race([run({ chain, apiUrl, databaseUrl, pollingIntervalMs }), stack.failed]);
    } finally {
      await stack.stop();
    }
  });

const startChain = async () => {
  const code = await compileContracts();
  const chain = await startLocalChain(CHAIN_ID, code);
  await chain.client.mine({ blocks: 1 });
  return chain;
};

const createIndexerSettings = async ({ url }: LocalChain) =>
  parseIndexerSettings({
    [`PONDER_RPC_URL_${CHAIN_ID}`]: url,
    [`START_BLOCK_${CHAIN_ID}`]: "0",
    INDEXER_PORT: String(await findFreePort()),
  });

const createApiEnv = async (databaseUrl: string, port: number, { url }: LocalChain) => ({
  ...process.env,
  [`PROOF_RPC_URL_${CHAIN_ID}`]: url,
  DATABASE_URL: databaseUrl,
  HOST: "127.0.0.1",
  PORT: String(port),
  METRICS_PORT: String(await findFreePort()),
  RATE_LIMIT_REQUESTS: "1000000",
});
