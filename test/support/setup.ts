import { randomBytes } from "node:crypto";
import pg from "pg";
import { inject, onTestFinished } from "vitest";
import { type LocalChain, startLocalChain } from "../../local/chain.ts";
import { compileContracts } from "../../local/compile-contracts.ts";
import { waitUntil } from "./until.ts";

export { startIndexer } from "./indexer.ts";
export { waitUntil, waitUntilIndexed } from "./until.ts";

/** Generates a unique name. A process id would not do: a long test run sees some twice. */
export const generateName = (prefix: string): string => `${prefix}_${randomBytes(6).toString("hex")}`;

// Real parts for one test. Each ends with the test that started it, unless noted.

/** Creates an empty database. */
export const createDatabase = async (): Promise<string> => {
  const url = new URL(inject("postgresUrl"));
  const name = generateName("test");
  const client = new pg.Client(url.href);
  await client.connect();
  await client.query(`create database ${name}`);
  await client.end();
  url.pathname = `/${name}`;
  return url.href;
};

export const connectClient = async (databaseUrl: string): Promise<pg.Client> => {
  const client = new pg.Client(databaseUrl);
  client.on("error", () => {});
  await client.connect();
  onTestFinished(() => client.end().catch(() => {}));
  return client;
};

/** Creates a local chain that mines on request. */
export const createChain = async (chainId: number, startsAt = new Date()): Promise<LocalChain> => {
  const chain = await launchChain(chainId, startsAt);
  onTestFinished(() => chain.stop());
  return chain;
};

/** Launches such a chain for several tests of a file. The caller stops it. */
export const launchChain = async (chainId: number, startsAt = new Date()): Promise<LocalChain> =>
  startLocalChain(chainId, await compileContracts(), { startsAt });

/** Waits until an indexer has created the schema analytics, which it does after it has caught up. */
export const waitUntilAnalytics = (database: pg.Client) =>
  waitUntil("the schema analytics exists", async () => {
    const { rows } = await database.query("select to_regclass('analytics.wallets') is not null as exists");
    return rows[0]?.exists === true;
  });
