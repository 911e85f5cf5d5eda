import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { inject, onTestFinished } from "vitest";
import { type LocalChain, startLocalChain } from "../../sandbox/chain.ts";
import { compileContracts } from "../../sandbox/contracts.ts";
import { startNode } from "../../stack/child.ts";
import { findFreePort } from "../../stack/ports.ts";
import { readIndexedHash } from "./index-state.ts";
import { runningProcesses } from "./processes.ts";

// Real parts for one test. Each ends with the test that asked for it.

let databases = 0;

/** An empty database. */
export const createDatabase = async (): Promise<string> => {
  const url = new URL(inject("postgresUrl"));
  const name = `test_${process.pid}_${++databases}`;
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
  startLocalChain(chainId, await findFreePort(), await compileContracts(), {
    output: new PassThrough().resume(),
    startsAt,
  });

type Endpoint = { chainId: number; url: string };

type IndexerOptions = {
  databaseUrl: string;
  chains: readonly Endpoint[];
  /** Settings beyond those that point at the database and the chains. */
  env?: NodeJS.ProcessEnv;
};

/** `npm run indexer`, over local chains. */
export const startIndexer = async ({ databaseUrl, chains, env = {} }: IndexerOptions) => {
  const port = await findFreePort();
  const chainSettings = chains.flatMap(({ chainId, url }) => [
    [`PONDER_RPC_URL_${chainId}`, url],
    [`START_BLOCK_${chainId}`, "0"],
  ]);
  const lines: string[] = [];
  const output = new PassThrough();
  output.on("data", (chunk: Buffer) => lines.push(chunk.toString()));
  if (process.env.INDEXER_LOG) output.pipe(createWriteStream(process.env.INDEXER_LOG, { flags: "a" }));

  const child = startNode(join(import.meta.dirname, "../../indexer/main.ts"), [], {
    output,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      DATABASE_URL: databaseUrl,
      INDEXER_PORT: String(port),
      POLLING_INTERVAL_MS: "200",
      ...Object.fromEntries(chainSettings),
      ...env,
    },
  });
  onTestFinished(() => child.stop());

  return {
    ...child,
    /** All that it has printed. */
    output: () => lines.join(""),
    /** Kills Ponder the hard way; the indexer starts it again. */
    killPonder: () => {
      for (const pid of childrenOf(child.pid)) process.kill(pid, "SIGKILL");
    },
    /** Kills the indexer the hard way, Ponder included. */
    kill: () => {
      const pids = [child.pid, ...childrenOf(child.pid)];
      for (const pid of pids) process.kill(pid, "SIGKILL");
    },
  };
};

const childrenOf = (pid: number): number[] =>
  runningProcesses().flatMap((running) => (running.parent === pid ? running.pid : []));

/** Repeats a question until the answer is yes. */
export const until = async (what: string, isSo: () => Promise<boolean>, seconds = 60): Promise<void> => {
  const deadline = Date.now() + seconds * 1000;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`Waited ${seconds} s in vain until ${what}.`);
    await sleep(50);
  }
};

/** Resolves when the newest block of a chain is the newest that the index includes. */
export const untilIndexed = async (
  database: pg.Client,
  chain: LocalChain,
  { schema = "registry", seconds = 60 } = {},
): Promise<void> => {
  const head = await chain.client.getBlock();
  await until(
    `block ${head.number} of chain ${chain.chainId} is indexed`,
    async () => {
      const hash = await readIndexedHash(database, schema, chain.chainId).catch(() => null);
      return hash === head.hash;
    },
    seconds,
  );
};
