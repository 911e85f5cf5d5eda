import { setTimeout as sleep } from "node:timers/promises";
import { type Address, zeroHash } from "viem";
import { generatePrivateKey, privateKeyToAddress } from "viem/accounts";
import { encodeV2 } from "../local/calls.ts";
import type { LocalChain } from "../local/chain.ts";
import { networks } from "../registry/networks.ts";
import { compare } from "./comparison.ts";
import { CHAIN_ID, withLiveStack } from "./live-stack.ts";
import type { Case } from "./report.ts";

/** Time from block to answer beyond the wait for the next poll. */
const ALLOWANCE_MS = 150;
const RETRY_MS = 5;

type Log = (message: string) => void;

type Options = {
  /** A Postgres server on which databases can be created and dropped. */
  serverUrl: string;
  samples: number;
  log: Log;
};

/** Measures how long after a block is mined the API's answer changes. */
export const measureLive = async ({ serverUrl, samples, log }: Options): Promise<Case[]> =>
  withLiveStack({ serverUrl, name: "live", log }, async ({ chain, apiUrl, pollingIntervalMs }) => {
    const latencies = await takeSamples({ chain, apiUrl, pollingIntervalMs, samples, log });
    return summarize(latencies, pollingIntervalMs);
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

type SampleOptions = { chain: LocalChain; apiUrl: string; pollingIntervalMs: number; samples: number; log: Log };

const takeSamples = async (options: SampleOptions): Promise<number[]> => {
  const { chain, apiUrl, pollingIntervalMs, samples, log } = options;
  const [vault] = chain.accounts;
  const registry = networks.get(CHAIN_ID)?.v2?.address;
  if (!vault || !registry) throw new Error(`Chain ${CHAIN_ID} lacks a wallet or a registry.`);
  const latencies: number[] = [];
  while (latencies.length < samples) {
    // Mine at a random moment between two polls.
    await sleep(pollingIntervalMs + Math.random() * pollingIntervalMs);
    const delegate = privateKeyToAddress(generatePrivateKey());
    const data = encodeV2("delegateAll", [delegate, zeroHash, true]);
    await chain.client.sendTransaction({ account: vault, chain: null, to: registry, data });
    if (await isDelegated(apiUrl, vault, delegate)) throw new Error("The answer is true before the block is mined.");
    await chain.client.mine({ blocks: 1 });
    const minedAt = performance.now();
    while (!(await isDelegated(apiUrl, vault, delegate))) await sleep(RETRY_MS);
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
