import { join } from "node:path";
import pg from "pg";
import { inject, onTestFinished } from "vitest";
import { readBuild } from "../../api/build.ts";
import { createLog } from "../../api/log.ts";
import { parseApiSettings } from "../../api/settings.ts";
import { startApi as runApi } from "../../api/start-api.ts";
import { compileContracts } from "../../sandbox/contracts.ts";
import { sendSamples } from "../../sandbox/samples.ts";
import { startNode } from "../../stack/child.ts";
import { isUp } from "../../stack/is-up.ts";
import { findFreePort } from "../../stack/ports.ts";
import { parseAll, parseDatabaseUrl } from "../../stack/settings.ts";
import { launchIndexer } from "./indexer.ts";
import { keepOutput } from "./output.ts";
import { createDatabase, launchChain, until } from "./setup.ts";
import { uniqueName } from "./unique-name.ts";

/** The sandbox's wallets and contracts, as the samples use them. */
export const VAULT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
export const HOT = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
export const FRIEND = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";
export const GUEST = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
export const GONE = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";
export const OTHER = "0x976EA74026E726554dB657fA54763abd0C3a0aa9";
export const SAFE = "0x5aFE000000000000000000000000000000000001";
export const NFT = "0xBC4CA0EdA7647A8aB7C2061c2E118A18a936f13D";
export const COIN = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48";
export const AIRDROP = "0x61697264726f7000000000000000000000000000000000000000000000000000";

/** A question about them whose answer is true. */
export const CHECK = `/registry/v2/check/all?to=${HOT}&from=${VAULT}`;

const WALLETS = `delegate=${HOT}&vault=${VAULT}`;

/** Every operation of a version, with a question that has an answer. */
export const OPERATIONS = {
  v1: [
    `/registry/v1/${VAULT}`,
    `/registry/v1/check/all?${WALLETS}`,
    `/registry/v1/check/contract?${WALLETS}&contract=${NFT}`,
    `/registry/v1/check/token?${WALLETS}&contract=${NFT}&tokenId=8520`,
  ],
  v2: [
    `/registry/v2/${VAULT}`,
    CHECK,
    `/registry/v2/check/contract?to=${HOT}&from=${VAULT}&contract=${NFT}`,
    `/registry/v2/check/erc721?${WALLETS}&contract=${NFT}&tokenId=8520`,
    `/registry/v2/check/erc1155?${WALLETS}&contract=${NFT}&tokenId=7`,
    `/registry/v2/check/erc20?${WALLETS}&contract=${COIN}`,
  ],
};

/** All tests ask from one address; those of the limit itself set their own. */
export const UNLIMITED = { RATE_LIMIT_REQUESTS: "1000000" };

/** For an index whose indexer has ended: its answers stay fresh enough for a day. */
export const FRESH_FOR_A_DAY = { MAX_INDEX_LAG_SECONDS: "86400" };

type ApiOptions = { databaseUrl: string; env?: NodeJS.ProcessEnv };
/** `now`: the clock of rate limits and remembered keys. */
type OwnApiOptions = ApiOptions & { now?: () => number };

const prepare = async ({ databaseUrl, env = {} }: ApiOptions) => {
  const port = Number(env.PORT ?? (await findFreePort()));
  const metricsPort = await findFreePort();
  const { output, printed } = keepOutput();
  const url = `http://127.0.0.1:${port}`;
  return {
    output,
    env: {
      DATABASE_URL: databaseUrl,
      HOST: "127.0.0.1",
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
      ...UNLIMITED,
      ...env,
    },
    api: {
      port,
      metricsPort,
      url,
      /** What Prometheus would read. */
      metrics: async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text(),
      get: (path: string, init?: RequestInit) => fetch(`${url}${path}`, init),
      /** All that it has logged. */
      output: printed,
    },
  };
};

/** The API over real sockets, in this process. The caller stops it. */
export const launchApi = async ({ now, ...options }: OwnApiOptions) => {
  const { output, env, api } = await prepare(options);
  const [databaseUrl, settings] = parseAll(
    () => parseDatabaseUrl(env),
    () => parseApiSettings(env),
  );
  const running = await runApi({
    databaseUrl,
    settings,
    build: readBuild(env),
    log: createLog(settings.logLevel, output),
    now,
  });
  let stopped: Promise<void> | undefined;
  return {
    ...api,
    stop: () => {
      stopped ??= running.stop();
      return stopped;
    },
  };
};

export type Api = Awaited<ReturnType<typeof launchApi>>;

/** The same until the test is over. */
export const startApi = async (options: OwnApiOptions): Promise<Api> => {
  const api = await launchApi(options);
  onTestFinished(() => api.stop());
  return api;
};

/** `npm run api`: for tests that kill it, or look at its memory. The caller stops it. */
export const launchApiProcess = async (options: ApiOptions) => {
  const { output, env, api } = await prepare(options);
  const child = startNode(join(import.meta.dirname, "../../api/main.ts"), [], {
    output,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
  });
  const ended = child.exited.then(() => {
    throw new Error(`The API ended:\n${api.output()}`);
  });
  ended.catch(() => {});
  await Promise.race([until("the API listens", () => isUp(`${api.url}/health`)), ended]);
  return { ...api, ...child };
};

export type ApiProcess = Awaited<ReturnType<typeof launchApiProcess>>;

/** The same until the test is over. */
export const startApiProcess = async (options: ApiOptions) => {
  const api = await launchApiProcess(options);
  onTestFinished(() => api.stop());
  return api;
};

const SAMPLE_CHAINS = [1, 137];

/**
 * A database with an index of the sandbox's samples on chains 1 and 137, as an indexer left it. It is
 * indexed once for all tests, and copied.
 */
export const createSampleDatabase = async (): Promise<string> => {
  const url = new URL(inject("postgresUrl"));
  const client = new pg.Client(url.href);
  await client.connect();
  try {
    // One test file makes it, the others wait.
    await client.query("select pg_advisory_lock(1)");
    const { rows } = await client.query("select 1 from pg_database where datname = 'sample'");
    if (rows.length === 0) {
      const made = await createDatabase();
      await indexSamples(made);
      await client.query(`alter database ${new URL(made).pathname.slice(1)} rename to sample`);
    }
    const name = uniqueName("sample");
    await client.query(`create database ${name} template sample`);
    url.pathname = `/${name}`;
    return url.href;
  } finally {
    await client.end();
  }
};

/** Indexes the sandbox's samples into a database, with chains and an indexer that end then. */
export const indexSamples = async (databaseUrl: string): Promise<void> => {
  const code = await compileContracts();
  const chains = await Promise.all(SAMPLE_CHAINS.map((chainId) => launchChain(chainId)));
  try {
    for (const chain of chains) await sendSamples(chain, code);
    const indexer = await launchIndexer({ databaseUrl, chains });
    const client = new pg.Client(databaseUrl);
    await client.connect();
    await until(
      "the samples are indexed",
      async () => {
        const { rows } = await client.query("select 1 from registry.indexed_block").catch(() => ({ rows: [] }));
        return rows.length === SAMPLE_CHAINS.length;
      },
      180,
    );
    await indexer.stop();
    await client.end();
  } finally {
    for (const chain of chains) await chain.stop();
  }
};

/** The API over the samples, for the tests of a file. */
export const launchSampleApi = async (env: NodeJS.ProcessEnv = {}): Promise<Api> =>
  launchApi({ databaseUrl: await createSampleDatabase(), env: { ...FRESH_FOR_A_DAY, ...env } });

/** `npm run api` over the samples. The caller stops it. */
export const launchSampleApiProcess = async (env: NodeJS.ProcessEnv = {}) =>
  launchApiProcess({ databaseUrl: await createSampleDatabase(), env: { ...FRESH_FOR_A_DAY, ...env } });
