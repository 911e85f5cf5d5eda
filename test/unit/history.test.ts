import type { Address } from "viem";
import { test as base, describe, expect } from "vitest";
import { checkHistory } from "../../indexer/check-history.ts";
import type { ChainPlan } from "../../indexer/plan.ts";
import { Endpoint } from "../../indexer/rpc/endpoint.ts";
import { findLogsRange } from "../../indexer/rpc/find-missing-history.ts";
import type { LocalChain } from "../../local/chain.ts";
import { networks } from "../../registry/networks.ts";
import { launchChainWithLogs } from "../support/indexed-chain.ts";
import { type Behaviour, dialects, type LogIndex, simulateProvider } from "../support/provider.ts";
import { askNode, startRpcProxy } from "../support/rpc-proxy.ts";

const CHAIN = 8453;
const BLOCKS = 20_000;
/** Ten blocks with a log in each thousand: logs are rare, but not near any sampled block. */
const LOG_BLOCKS = Array.from({ length: 200 }, (_, index) => 1 + index * 100);

/** A chain on which one block in a hundred has a log. */
const QUIET_BLOCKS = 2_500;
const QUIET_LOG_BLOCKS = LOG_BLOCKS.filter((block) => block <= QUIET_BLOCKS);

const registry = networks.get(CHAIN)?.v2?.address as Address;

const test = base
  .extend("chain", { scope: "file" }, async ({}, { onCleanup }) => {
    const chain = await launchChainWithLogs(CHAIN, BLOCKS, LOG_BLOCKS);
    onCleanup(() => chain.stop());
    return chain;
  })
  .extend("quietChain", { scope: "file" }, async ({}, { onCleanup }) => {
    const chain = await launchChainWithLogs(CHAIN, QUIET_BLOCKS, QUIET_LOG_BLOCKS);
    onCleanup(() => chain.stop());
    return chain;
  })
  .extend(
    "startProvider",
    ({ chain }) =>
      (behaviour: Behaviour) =>
        startProviderOf(chain, behaviour),
  )
  .extend(
    "startQuiet",
    ({ quietChain }) =>
      (behaviour: Behaviour) =>
        startProviderOf(quietChain, behaviour),
  );

const startProviderOf = async ({ url }: LocalChain, behaviour: Behaviour) => {
  const proxy = await startRpcProxy(url);
  proxy.intercept = simulateProvider(url, behaviour);
  return proxy;
};

const planFor = (...urls: string[]): ChainPlan => ({
  chainId: CHAIN,
  name: "Base",
  rpcUrls: urls,
  wsUrl: null,
  v1: null,
  v2: { address: registry, startBlock: 1 },
});

const check = async (chain: ChainPlan, reached = 0) => {
  const messages: string[] = [];
  const progress = [{ chainId: CHAIN, start: 1, reached, newest: 0 }];
  const plan = { chains: [chain], pollingIntervalMs: 1000 };
  const { chains } = await checkHistory(
    plan,
    progress,
    (message) => messages.push(message),
    AbortSignal.timeout(60_000),
  );
  return { messages, plan: chains[0] };
};

describe("checkHistory()", () => {
  test("accepts an endpoint with all logs, with few requests", async ({ startProvider }) => {
    const { url, seen } = await startProvider({});
    const { messages, plan } = await check(planFor(url));
    expect(plan).toMatchObject({ recentOnlyUrls: [], logsRange: 10_000 });
    expect(messages).toEqual([]);
    expect(seen.length).toBeLessThan(200);
  });

  test.for([5_000, 15_000])(
    "uses an endpoint without the logs before block %i for new blocks only",
    async (logsSince, { startProvider }) => {
      const [lacking, complete] = [await startProvider({ logsSince }), await startProvider({})];
      const { messages, plan } = await check(planFor(lacking.url, complete.url));
      expect(plan?.recentOnlyUrls).toEqual([lacking.url]);
      expect(messages).toEqual([
        expect.stringMatching(
          /^Base: .* lacks history: it returns no logs of block \d+, .* It is used for new blocks only\.$/,
        ),
      ]);
    },
  );

  test("throws if no endpoint has the history, and says what to set", async ({ startProvider }) => {
    const { url } = await startProvider({ logsSince: 10_000 });
    await expect(check(planFor(url))).rejects.toThrow(
      /Base: PONDER_RPC_URL_8453 \(http:.*\) lacks history: it returns no logs of block \d+, .*START_BLOCK_8453/,
    );
  });

  test.for([
    ["receipts", "eth_getTransactionReceipt", "does not have the receipts of block"],
    ["blocks", "eth_getBlockByNumber", "does not have block"],
  ] as const)("throws if the node lacks old %s", async ([, method, message], { startProvider }) => {
    const { url } = await startProvider({
      interrupt: (request) => (request.method === method ? { result: null } : undefined),
    });
    await expect(check(planFor(url))).rejects.toThrow(message);
  });

  test("accepts an endpoint that lacks its blocks for 2 s", async ({ startProvider }) => {
    let lacksUntil: number | undefined;
    const { url } = await startProvider({
      interrupt: ({ method }) => {
        if (method !== "eth_getBlockByNumber") return undefined;
        lacksUntil ??= Date.now() + 2_000;
        return Date.now() < lacksUntil ? { result: null } : undefined;
      },
    });
    const { plan } = await check(planFor(url));
    expect(plan?.recentOnlyUrls).toEqual([]);
  });

  test("does not ask for a history that the index has", async ({ startProvider }) => {
    const { url, seen } = await startProvider({ logsSince: 10_000 });
    await check(planFor(url), BLOCKS - 200);
    expect(seen.map(({ method }) => method)).toEqual(["eth_chainId", "eth_blockNumber"]);
  });

  test("accepts an endpoint for a range that is shorter than its requests", async ({ startProvider }) => {
    const { url } = await startProvider({});
    const { messages, plan } = await check(planFor(url), BLOCKS - 5_000);
    expect(plan).toMatchObject({ recentOnlyUrls: [], logsRange: 10_000 });
    expect(messages).toEqual([]);
  });

  test.for([
    [1_000, []],
    [5_000, [expect.stringContaining("no RPC endpoint can prove that it has the history")]],
  ] as const)("waits for an endpoint that is out for %i ms", async ([outageMs, expected], { startProvider }) => {
    const endsAt = Date.now() + outageMs;
    const { url } = await startProvider({ interrupt: () => (Date.now() < endsAt ? { status: 503 } : undefined) });
    const { messages } = await check(planFor(url));
    expect(messages).toEqual(expected);
  });

  test("repeats a request of each kind that fails once", async ({ startProvider }) => {
    const failed = new Set<string>();
    const { url } = await startProvider({
      interrupt: ({ method }) => {
        if (failed.has(method)) return undefined;
        failed.add(method);
        return { status: 503 };
      },
    });
    const { messages, plan } = await check(planFor(url));
    expect(messages).toEqual([]);
    expect(plan?.recentOnlyUrls).toEqual([]);
  });
});

describe("checkHistory() on a chain where one block in a hundred has a log", () => {
  const ALL = { first: 0, last: QUIET_BLOCKS };
  const lossy: LogIndex[] = [
    { defect: "without logs", first: 0, last: 499 },
    { defect: "without logs", first: 1_000, last: 1_250 },
    { defect: "without every third log", ...ALL },
    { defect: "behind", blocks: 500 },
  ];
  const lacksHistory = /lacks history: it returns no logs of block \d+, whose receipts have some/;

  test.for(lossy)("finds that a log index is $defect", async (logIndex, { startQuiet }) => {
    const { url } = await startQuiet({ logIndex });
    await expect(check(planFor(url))).rejects.toThrow(lacksHistory);
  });

  test("finds it in a range of 500 blocks", async ({ startQuiet }) => {
    const { url } = await startQuiet({ logIndex: { defect: "without every third log", ...ALL } });
    await expect(check(planFor(url), QUIET_BLOCKS - 740)).rejects.toThrow(lacksHistory);
  });

  test.for([
    ["with the fees of its blocks", undefined],
    ["without them", { error: { code: -32601, message: "the method eth_feeHistory does not exist" } }],
  ] as const)("accepts a complete endpoint %s, with few requests", async ([, answer], { startQuiet }) => {
    const { url, seen } = await startQuiet({
      logIndex: { defect: "twice" },
      interrupt: ({ method }) => (method === "eth_feeHistory" ? answer : undefined),
    });
    const { plan } = await check(planFor(url));
    expect(plan?.recentOnlyUrls).toEqual([]);
    expect(seen.length).toBeLessThan(200);
  });

  test("sends up to 16 requests at a time", async ({ quietChain, startQuiet }) => {
    const proxy = await startQuiet({});
    let [inFlight, most] = [0, 0];
    proxy.intercept = async (request) => {
      most = Math.max(most, ++inFlight);
      const answer = await askNode(quietChain.url, request);
      inFlight--;
      return answer;
    };
    await check(planFor(proxy.url));
    expect(most).toBeGreaterThan(4);
    expect(most).toBeLessThanOrEqual(16);
  });
});

test("findLogsRange() repeats a request that fails once", async ({ startProvider }) => {
  let count = 0;
  const { url } = await startProvider({
    interrupt: ({ method }) => (method === "eth_getLogs" && count++ === 0 ? { status: 503 } : undefined),
  });
  expect(await findLogsRange(new Endpoint(CHAIN, url), [registry], { first: 1, last: BLOCKS })).toBe(10_000);
});

test.for([
  ["alchemy", 10],
  ["chainstack", 100],
  ["tenderly", 2_000],
  ["besu", 5_000],
  ["infura", 10_000],
] as const)("findLogsRange() finds a range that %s accepts", async ([name, range], { startProvider }) => {
  const { url } = await startProvider({ dialect: dialects[name] });
  expect(await findLogsRange(new Endpoint(CHAIN, url), [registry], { first: 1, last: BLOCKS })).toBe(range);
});
