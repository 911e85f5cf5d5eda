import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { zeroHash } from "viem";
import { generatePrivateKey, privateKeyToAddress } from "viem/accounts";
import { type IndexerSettings, parseIndexerSettings } from "../indexer/settings.ts";
import { encodeV2 } from "../local/calls.ts";
import { type LocalChain, startLocalChain } from "../local/chain.ts";
import { compileContracts } from "../local/compile-contracts.ts";
import { Stack } from "../local/stack.ts";
import { startLocalIndexer } from "../local/start-local-indexer.ts";
import { findFreePort } from "../process/ports.ts";
import { networks } from "../registry/networks.ts";
import { compare } from "./comparison.ts";
import { cpuSeconds, findChildPid, serverCpuSeconds } from "./process-cost.ts";
import type { Case } from "./report.ts";
import { logFile, withDatabase } from "./with-database.ts";

const BLOCK_MS = 250;
const DELEGATION_INTERVAL_MS = 1_000;
const SAMPLE_INTERVAL_MS = 250;
/** The number of chains that have to keep up. */
const EXPECTED_CHAINS = 10;
const MAX_LAG_MS = 2_000;
/** Time for V8 to compile Ponder, and for the chains to make up for the time until they were served. */
const MAX_WARM_UP_MS = 10_000;

type Log = (message: string) => void;

type Options = {
  /** A Postgres server on which databases can be created and dropped. */
  serverUrl: string;
  /** Numbers of chains to measure. */
  chainCounts: readonly number[];
  /** Time to measure each number of chains. */
  lagMs: number;
  log: Log;
};

/** Measures how late one shard is on chains with a block every 250 ms and a delegation every second. */
export const measureChains = async ({ serverUrl, chainCounts, lagMs, log }: Options): Promise<Case[]> => {
  const cases: Case[] = [];
  for (const count of chainCounts) {
    const measured = await withDatabase(serverUrl, "chains", (databaseUrl) =>
      runChains(count, databaseUrl, lagMs, log),
    );
    log(`${measured.name}: p50 ${measured.figures.p50Ms} ms, ${measured.remark}`);
    cases.push(measured);
  }
  return cases;
};

const runChains = async (count: number, databaseUrl: string, lagMs: number, log: Log): Promise<Case> => {
  const stack = new Stack();
  try {
    const chainIds = [...networks.values()].flatMap(({ chainId, v2 }) => (v2 ? chainId : [])).slice(0, count);
    const chains = await Promise.all(chainIds.map((chainId) => stack.add("A chain", () => startFastChain(chainId))));
    const settings = await createIndexerSettings(chains);
    await Promise.race([startShard(stack, settings, databaseUrl, log), stack.failed]);
    return await Promise.race([measureLag(databaseUrl, chains, lagMs), stack.failed]);
  } finally {
    await stack.stop();
  }
};

/** Starts a real chain in this process: ten of them use less than a hundredth of a processor, besides their requests. */
const startFastChain = async (chainId: number): Promise<LocalChain> => {
  const chain = await startLocalChain(chainId, await compileContracts(), { allowBlocksWithSameTimestamp: true });
  await chain.client.setIntervalMining({ interval: BLOCK_MS / 1000 });
  return chain;
};

const createIndexerSettings = async (chains: readonly LocalChain[]) =>
  parseIndexerSettings({
    ...Object.fromEntries(chains.map(({ chainId, url }) => [`PONDER_RPC_URL_${chainId}`, url])),
    ...Object.fromEntries(chains.map(({ chainId }) => [`START_BLOCK_${chainId}`, "0"])),
    INDEXER_PORT: String(await findFreePort()),
  });

/** Starts an indexer, and resolves when its views are complete. */
const startShard = (stack: Stack, settings: IndexerSettings, databaseUrl: string, log: Log) =>
  new Promise<void>((onReady) => {
    const output = logFile(`chains-${settings.chains.length}-indexer`);
    stack.add("The indexer", () =>
      startLocalIndexer(settings, { databaseUrl, log, output, restart: false, onReady: () => onReady() }),
    );
  });

const measureLag = async (databaseUrl: string, chains: readonly LocalChain[], lagMs: number): Promise<Case> => {
  const database = new pg.Client(databaseUrl);
  await database.connect();
  const delegations = setInterval(() => {
    for (const chain of chains) sendDelegation(chain);
  }, DELEGATION_INTERVAL_MS);
  try {
    await sleep(Math.min(MAX_WARM_UP_MS, lagMs));
    const { rows } = await database.query("select pg_backend_pid() as pid");
    const ponder = findChildPid("ponder.js");
    const readCosts = () => ({ ponder: cpuSeconds(ponder), postgres: serverCpuSeconds(rows[0].pid) });
    const before = readCosts();
    const lags = await takeSamples(database, chains, lagMs);
    const after = readCosts();
    const percent = (part: "ponder" | "postgres") => Math.round(((after[part] - before[part]) / lagMs) * 100_000);
    return summarize(
      lags,
      chains.length,
      `Ponder uses ${percent("ponder")} % of a processor, Postgres ${percent("postgres")} %`,
    );
  } finally {
    clearInterval(delegations);
    await database.end();
  }
};

const summarize = (lags: readonly number[], chains: number, costs: string): Case => {
  const sorted = lags.toSorted((a, b) => a - b);
  const percentile = (share: number) => sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN;
  const limit = compare({
    baseline: `${MAX_LAG_MS / 1000} s`,
    unit: "greatest lag",
    ours: percentile(1),
    theirs: MAX_LAG_MS,
    target: { atMost: 1 },
  });
  return {
    name: `lag of one shard, chains with a block every ${BLOCK_MS} ms: ${chains}`,
    figures: { p50Ms: percentile(0.5), p99Ms: percentile(0.99) },
    comparisons: chains === EXPECTED_CHAINS ? [limit] : [],
    remark: `at most ${percentile(1)} ms; ${costs}`,
  };
};

/** Measures the lag of each chain, several times a second. */
const takeSamples = async (database: pg.Client, chains: readonly LocalChain[], ms: number): Promise<number[]> => {
  const lags: number[] = [];
  for (const end = performance.now() + ms; performance.now() < end; await sleep(SAMPLE_INTERVAL_MS)) {
    const { rows } = await database.query("select chain_id, number from registry.indexed_block");
    const indexed = new Map(rows.map((row) => [Number(row.chain_id), Number(row.number)]));
    for (const { chainId, client } of chains) {
      // The clock of a chain has seconds. The numbers of its blocks are exact.
      lags.push((Number(await client.getBlockNumber()) - (indexed.get(chainId) ?? 0)) * BLOCK_MS);
    }
  }
  return lags;
};

const sendDelegation = async ({ client, accounts, chainId }: LocalChain): Promise<void> => {
  const registry = networks.get(chainId)?.v2?.address;
  const [vault] = accounts;
  if (!vault || !registry) throw new Error(`Chain ${chainId} lacks a wallet or a registry.`);
  const data = encodeV2("delegateAll", [privateKeyToAddress(generatePrivateKey()), zeroHash, true]);
  await client.sendTransaction({ account: vault, chain: null, to: registry, data, gas: 300_000n });
};
