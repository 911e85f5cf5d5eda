import { setTimeout as sleep } from "node:timers/promises";
import { type Address, zeroHash } from "viem";
import { generatePrivateKey, privateKeyToAddress } from "viem/accounts";
import { startApiProcess } from "../api/process.ts";
import { parseApiSettings } from "../api/settings.ts";
import { runIndexer } from "../indexer/run-indexer.ts";
import { type IndexerSettings, parseIndexerSettings } from "../indexer/settings.ts";
import { networks } from "../registry/networks.ts";
import { encodeV2 } from "../sandbox/calls.ts";
import { type LocalChain, startLocalChain } from "../sandbox/chain.ts";
import { compileContracts } from "../sandbox/contracts.ts";
import { isUp } from "../stack/is-up.ts";
import { findFreePort } from "../stack/ports.ts";
import { type Part, runPart, Stack } from "../stack/stack.ts";
import { compare } from "./comparison.ts";
import { logFile, withDatabase } from "./database.ts";
import type { Case } from "./report.ts";

const CHAIN_ID = 1;
/** What the way from a block to an answer may take beyond the wait for the next poll. */
const ALLOWANCE_MS = 150;
const ASK_AGAIN_MS = 5;

type Log = (message: string) => void;

type Options = {
  /** A Postgres where databases can be made and dropped. */
  serverUrl: string;
  samples: number;
  log: Log;
};

/** How long after a block is mined the API's answer changes. */
export const measureLive = async ({ serverUrl, samples, log }: Options): Promise<Case[]> =>
  withDatabase(serverUrl, "live", async (databaseUrl) => {
    const stack = new Stack();
    try {
      const chain = await stack.add("The chain", startChain);
      const settings = await indexerSettings(chain);
      await stack.add("The indexer", async () => startIndexer(settings, databaseUrl, log));
      const api = await apiSettings();
      await stack.add("The API", async () => {
        const { stop, exited } = startApiProcess(api, databaseUrl, logFile("live-api"));
        return { stop, ended: exited };
      });
      const apiUrl = `http://127.0.0.1:${api.port}`;
      const measuring = takeSamples(chain, apiUrl, settings.pollingIntervalMs, samples, log);
      return summarize(await Promise.race([measuring, stack.failed]), settings.pollingIntervalMs);
    } finally {
      await stack.stop();
    }
  });

const summarize = (latencies: readonly number[], intervalMs: number): Case[] => {
  const sorted = latencies.toSorted((a, b) => a - b);
  const percentile = (share: number) => sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN;
  const p50 = percentile(0.5);
  return [
    {
      name: "live: transaction mined → answer changed",
      figures: { p50Ms: p50, p99Ms: percentile(0.99) },
      comparisons: [
        compare({
          baseline: "polling interval",
          unit: "ms p50",
          ours: p50,
          theirs: intervalMs,
          target: { atMost: (intervalMs + ALLOWANCE_MS) / intervalMs },
        }),
      ],
    },
  ];
};

const takeSamples = async (
  chain: LocalChain,
  apiUrl: string,
  intervalMs: number,
  samples: number,
  log: Log,
): Promise<number[]> => {
  const [vault] = chain.accounts;
  const registry = networks.get(CHAIN_ID)?.v2?.address;
  if (!vault || !registry) throw new Error(`Chain ${CHAIN_ID} lacks a wallet or a registry.`);
  while (!(await isUp(`${apiUrl}/ready`))) await sleep(200);

  const latencies: number[] = [];
  while (latencies.length < samples) {
    // At any moment between two polls.
    await sleep(intervalMs + Math.random() * intervalMs);
    const delegate = privateKeyToAddress(generatePrivateKey());
    const data = encodeV2("delegateAll", [delegate, zeroHash, true]);
    await chain.client.sendTransaction({ account: vault, chain: null, to: registry, data });
    if (await isDelegated(apiUrl, vault, delegate)) throw new Error("The answer is true before the block is mined.");
    await chain.client.mine({ blocks: 1 });
    const minedAt = performance.now();
    while (!(await isDelegated(apiUrl, vault, delegate))) await sleep(ASK_AGAIN_MS);
    latencies.push(performance.now() - minedAt);
    log(`live, sample ${latencies.length} of ${samples}: ${Math.round(latencies.at(-1) ?? 0)} ms`);
  }
  return latencies;
};

const isDelegated = async (apiUrl: string, vault: Address, delegate: Address): Promise<boolean> => {
  const response = await fetch(`${apiUrl}/registry/v2/check/all?to=${delegate}&from=${vault}`);
  const body = await response.text();
  if (!response.ok) throw new Error(`The API answered ${response.status}: ${body}`);
  return body === "true";
};

const startChain = async () => {
  const code = await compileContracts();
  const chain = await startLocalChain(CHAIN_ID, code);
  await chain.client.mine({ blocks: 1 });
  // It runs in this process, and ends with it.
  return { ...chain, ended: new Promise(() => {}) };
};

const indexerSettings = async ({ url }: LocalChain) =>
  parseIndexerSettings({
    [`PONDER_RPC_URL_${CHAIN_ID}`]: url,
    [`START_BLOCK_${CHAIN_ID}`]: "0",
    INDEXER_PORT: String(await findFreePort()),
  });

const apiSettings = async () =>
  parseApiSettings({
    HOST: "127.0.0.1",
    PORT: String(await findFreePort()),
    METRICS_PORT: String(await findFreePort()),
    RATE_LIMIT_REQUESTS: "1000000",
  });

const startIndexer = (settings: IndexerSettings, databaseUrl: string, log: Log): Part =>
  runPart((signal) =>
    runIndexer(settings, { databaseUrl, log, output: logFile("live-indexer"), restart: false, signal }),
  );
