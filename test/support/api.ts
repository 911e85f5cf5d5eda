import pg from "pg";
import { inject, onTestFinished } from "vitest";
import { readBuild } from "../../api/health/read-build.ts";
import { createLog } from "../../api/metrics/log.ts";
import { parseApiSettings } from "../../api/settings.ts";
import { startApi } from "../../api/start-api.ts";
import { indexSamples } from "../../local/index-samples.ts";
import { spawnApi } from "../../local/spawn-api.ts";
import { isUp } from "../../process/is-up.ts";
import { findFreePort } from "../../process/ports.ts";
import { parseAll, parseDatabaseUrl } from "../../process/settings.ts";
import { captureOutput } from "./run.ts";
import { createDatabase, generateName, waitUntil } from "./setup.ts";

/** Wallets and contracts of the sandbox's samples. */
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

/** A check of the samples that answers true. */
export const CHECK = `/registry/v2/check/all?to=${HOT}&from=${VAULT}`;

const WALLETS = `delegate=${HOT}&vault=${VAULT}`;

/** All operations of each version, with parameters that give an answer. */
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

/** All tests share one client address. Tests of the rate limit set their own limit. */
export const UNLIMITED = { RATE_LIMIT_REQUESTS: "1000000" };

/** Accepts an index for a day after its indexer stopped. */
export const FRESH_FOR_A_DAY = { MAX_INDEX_LAG_SECONDS: "86400" };

type ApiOptions = { databaseUrl: string; env?: NodeJS.ProcessEnv };
/** `now`: clock of rate limits and cached keys. */
type OwnApiOptions = ApiOptions & { now?: (() => number) | undefined };

const prepare = async ({ databaseUrl, env = {} }: ApiOptions) => {
  const port = Number(env.PORT ?? (await findFreePort()));
  const metricsPort = await findFreePort();
  const { output, printed } = captureOutput();
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
      /** Reads the metrics as Prometheus does. */
      metrics: async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text(),
      get: (path: string, init?: RequestInit) => fetch(`${url}${path}`, init),
      /** Returns the log so far. */
      output: printed,
    },
  };
};

/** Launches the API over real sockets, in this process. The caller stops it. */
export const launchApi = async ({ now, ...options }: OwnApiOptions) => {
  const { output, env, api } = await prepare(options);
  const [databaseUrl, settings] = parseAll(
    () => parseDatabaseUrl(env),
    () => parseApiSettings(env),
  );
  const running = await startApi({
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

/** Starts the API in this process until the test is over. */
export const startTestApi = async (options: OwnApiOptions): Promise<Api> => {
  const api = await launchApi(options);
  onTestFinished(() => api.stop());
  return api;
};

/** Launches `npm run api`, for tests that kill it or measure its memory. The caller stops it. */
export const launchApiProcess = async (options: ApiOptions) => {
  const { output, env, api } = await prepare(options);
  const child = spawnApi({ PATH: process.env.PATH, HOME: process.env.HOME, ...env }, output);
  const ended = child.exited.then(() => {
    throw new Error(`The API ended:\n${api.output()}`);
  });
  ended.catch(() => {});
  await Promise.race([waitUntil("the API listens", () => isUp(`${api.url}/health`)), ended]);
  return { ...api, ...child };
};

export type ApiProcess = Awaited<ReturnType<typeof launchApiProcess>>;

/** Starts `npm run api` until the test is over. */
export const startTestApiProcess = async (options: ApiOptions) => {
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
    // One test file creates it; the others wait.
    await client.query("select pg_advisory_lock(1)");
    const { rows } = await client.query("select 1 from pg_database where datname = 'sample'");
    if (rows.length === 0) {
      const made = await createDatabase();
      await indexSamples({ databaseUrl: made, chainIds: SAMPLE_CHAINS, output: captureOutput().output });
      await client.query(`alter database ${new URL(made).pathname.slice(1)} rename to sample`);
    }
    const name = generateName("sample");
    await client.query(`create database ${name} template sample`);
    url.pathname = `/${name}`;
    return url.href;
  } finally {
    await client.end();
  }
};
