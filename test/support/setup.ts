import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import pg from "pg";
import type { Hex } from "viem";
import { inject, onTestFinished } from "vitest";
import { type LocalChain, startLocalChain } from "../../local/chain.ts";
import { compileContracts } from "../../local/compile-contracts.ts";
import { type Queries, readIndexedHash } from "./index-state.ts";
import type { Transaction } from "./world.ts";

export { startIndexer } from "./indexer.ts";

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

/** Depth of the longest reorg, on chains whose blocks Ponder treats as final after 30 more. */
const KEPT = 30;

/** A local chain that can revert its newest blocks. */
export class ReorgChain {
  readonly local: LocalChain;
  /** A snapshot before each of the newest blocks, the oldest first. */
  #snapshots: Hex[] = [];
  #timestamp = 0;

  constructor(local: LocalChain) {
    this.local = local;
  }

  /** Mines one block with these transactions. Throws if one of them fails. */
  async mine(transactions: readonly Transaction[] = []): Promise<void> {
    const { client } = this.local;
    this.#snapshots.push(await client.snapshot());
    this.#snapshots = this.#snapshots.slice(-KEPT);

    const hashes: Hex[] = [];
    for (const { from, to, data } of transactions) {
      hashes.push(
        await client.sendTransaction({ account: from, chain: null, to, data, gas: 8_000_000n, gasPrice: 0n }),
      );
    }
    // Makes every block unique, including a replacement of another.
    const { timestamp } = await client.getBlock();
    this.#timestamp = Math.max(this.#timestamp + 1, Number(timestamp) + 1, Math.floor(Date.now() / 1000));
    await client.setNextBlockTimestamp({ timestamp: BigInt(this.#timestamp) });
    await client.mine({ blocks: 1 });

    for (const hash of hashes) {
      const { status } = await client.getTransactionReceipt({ hash });
      if (status !== "success") throw new Error(`Transaction ${hash} failed.`);
    }
  }

  /** Reverts the newest blocks. The caller mines their replacements. */
  async revertBlocks(depth: number): Promise<void> {
    const snapshot = this.#snapshots.at(-depth);
    if (!snapshot) throw new Error(`Cannot revert ${depth} blocks: only ${this.#snapshots.length} have a snapshot.`);
    await this.local.client.revert({ id: snapshot });
    this.#snapshots = this.#snapshots.slice(0, -depth);
  }
}

/**
 * Reads a value repeatedly until it is the wanted one, and returns it.
 * After the timeout it throws an error with the last value.
 */
export const waitUntil = async <T>(
  what: string,
  read: () => Promise<T> | T,
  seconds = 60,
  isWanted: (value: T) => boolean = Boolean,
): Promise<T> => {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const value = await read();
    if (isWanted(value)) return value;
    if (Date.now() > deadline) throw new Error(`Waited ${seconds} s until ${what}. Last seen: ${inspect(value)}`);
    await sleep(25);
  }
};

/** Waits until the newest block of a chain is indexed. */
export const waitUntilIndexed = async (
  database: Queries,
  chain: LocalChain,
  { schema = "registry", seconds = 60 } = {},
): Promise<void> => {
  const { number, hash } = await chain.client.getBlock();
  await waitUntil(
    `block ${number} (${hash}) of chain ${chain.chainId} is indexed`,
    () => readIndexedHash(database, schema, chain.chainId).catch((error) => error),
    seconds,
    (indexed) => indexed === hash,
  );
};

/** Waits until an indexer has created the schema analytics, which it does after it has caught up. */
export const waitUntilAnalytics = (database: pg.Client) =>
  waitUntil("the schema analytics exists", async () => {
    const { rows } = await database.query("select to_regclass('analytics.wallets') is not null as exists");
    return rows[0]?.exists === true;
  });
