import pg from "pg";
import { inject, onTestFinished } from "vitest";
import { type LocalChain, startLocalChain } from "../../sandbox/chain.ts";
import { compileContracts } from "../../sandbox/contracts.ts";
import { uniqueName } from "./unique-name.ts";
import { until } from "./until.ts";

export { startIndexer } from "./indexer.ts";
export { until, untilIndexed } from "./until.ts";

// Real parts for one test. Each ends with the test that asked for it.

/** An empty database. */
export const createDatabase = async (): Promise<string> => {
  const url = new URL(inject("postgresUrl"));
  const name = uniqueName("test");
  const client = new pg.Client(url.href);
  await client.connect();
  await client.query(`create database ${name}`);
  await client.end();
  url.pathname = `/${name}`;
  return url.href;
};

export const connect = async (databaseUrl: string): Promise<pg.Client> => {
  const client = new pg.Client(databaseUrl);
  client.on("error", () => {});
  await client.connect();
  onTestFinished(() => client.end().catch(() => {}));
  return client;
};

/** A local chain that mines when told to. */
export const createChain = async (chainId: number, startsAt = new Date()): Promise<LocalChain> => {
  const chain = await launchChain(chainId, startsAt);
  onTestFinished(() => chain.stop());
  return chain;
};

/** The same for several tests of a file: who asks for it stops it. */
export const launchChain = async (chainId: number, startsAt = new Date()): Promise<LocalChain> =>
  startLocalChain(chainId, await compileContracts(), { startsAt });

/** Resolves when an indexer has made what data teams are given, which it does once it has caught up. */
export const untilAnalytics = (database: pg.Client) =>
  until("the schema analytics is there", async () => {
    const { rows } = await database.query("select to_regclass('analytics.wallets') is not null as exists");
    return rows[0]?.exists === true;
  });
