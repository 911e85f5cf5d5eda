import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished } from "vitest";
import { FRESH_FOR_A_DAY, startTestApi } from "../../support/api.ts";
import { createRandomChain } from "../../support/indexed-chain.ts";
import { startIndexer } from "../../support/indexer.ts";
import { type Behaviour, simulateProvider } from "../../support/provider.ts";
import type { ComparedChain } from "../../support/random-chain.ts";
import { askNode, startRpcProxy } from "../../support/rpc-proxy.ts";
import { connectClient, createDatabase, waitUntil, waitUntilIndexed } from "../../support/setup.ts";
import { test } from "../../support/test.ts";

// Nodes that have lost logs of final blocks, and say nothing. Newer blocks are verified one by one.

const BLOCKS = 80;
const chainId = 8453;

const startEndpoint = async (subject: ComparedChain, behaviour: Behaviour) => {
  const proxy = await startRpcProxy(subject.local.url);
  proxy.intercept = simulateProvider(subject.local.url, behaviour);
  return proxy.url;
};

/** Asks for all lists again and again, and keeps every answer. The chain does not change. */
const startReader = (subject: ComparedChain, get: (path: string) => Promise<Response>) => {
  const answers = new Map<string, Set<string>>();
  const paths = subject.world.wallets.flatMap(({ address }) =>
    ["v1", "v2"].map((version) => `/registry/${version}/${address}?chainId=${subject.local.chainId}`),
  );
  let isStopped = false;
  const ask = async () => {
    for (const path of paths) {
      const response = await get(path);
      if (response.status === 200) answers.set(path, (answers.get(path) ?? new Set()).add(await response.text()));
      else expect(response.status, path).toBe(503);
    }
  };
  const reading = (async () => {
    while (!isStopped) {
      await ask();
      await sleep(100);
    }
  })();
  const stop = async () => {
    isStopped = true;
    await reading;
  };
  onTestFinished(stop);
  return { ask, answers, stop };
};

describe("an index from a node whose log index", () => {
  test.for<[string, Behaviour]>([
    ["lacks every third log", { logIndex: { defect: "without every third log", first: 0, last: 45 } }],
    ["lacks a range", { logIndex: { defect: "without logs", first: 15, last: 30 } }],
    ["lacks everything below a block", { logsSince: 25 }],
    ["ends a response early", { logIndex: { defect: "truncated", logs: 15 } }],
    ["has each log twice", { logIndex: { defect: "twice" } }],
  ])("%s gives no wrong answer, and ends right", async ([, behaviour]) => {
    const subject = await createRandomChain(chainId, 91, BLOCKS);
    const databaseUrl = await createDatabase();
    const url = await startEndpoint(subject, behaviour);
    await startIndexer({ databaseUrl, chains: [{ chainId, url }] });
    const api = await startTestApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "100000" } });
    const reader = startReader(subject, api.get);

    await waitUntilIndexed(await connectClient(databaseUrl), subject.local, { seconds: 150 });
    await subject.expectSameAnswers(databaseUrl, "registry", [1, 20, 40, 60]);
    await reader.stop();
    await reader.ask();
    expect(reader.answers.size).toBeGreaterThan(0);
    for (const [path, bodies] of reader.answers) expect([...bodies], path).toHaveLength(1);
  });
});

test("a chain whose lost logs no node has is refused with the reason; others answer, and a complete node repairs it", async () => {
  const subject = await createRandomChain(chainId, 92, BLOCKS);
  const other = await createRandomChain(10, 93, BLOCKS);
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const isLost = ({ blockNumber }: { blockNumber: string }) => Number(blockNumber) < 30;
  const proxy = await startRpcProxy(subject.local.url);
  // Its receipts have no logs either.
  proxy.intercept = async (request) => {
    const { method } = request;
    if (method !== "eth_getLogs" && method !== "eth_getTransactionReceipt") return undefined;
    const answer = await askNode(subject.local.url, request);
    if (!("result" in answer)) return answer;
    if (Array.isArray(answer.result)) return { result: answer.result.filter((log) => !isLost(log)) };
    const receipt = answer.result as { blockNumber: string; logs: unknown[] };
    return { result: isLost(receipt) ? { ...receipt, logs: [] } : receipt };
  };
  const healthy = { chainId: 10, url: other.local.url };
  const indexer = await startIndexer({ databaseUrl, chains: [{ chainId, url: proxy.url }, healthy] });
  await waitUntil("it was repaired in vain", async () => indexer.output().includes("repair 3."), 180);
  await waitUntilIndexed(database, other.local, { seconds: 60 });
  await other.expectSameAnswers(databaseUrl, "registry", [1, 40]);

  const api = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const [wallet] = subject.world.wallets;
  const ask = async () =>
    (await (await api.get(`/registry/v2/${wallet?.address}?chainId=${chainId}`)).json()) as object;
  const detail =
    /index of Chain 8453 \(Base\) differs from the registries.*: v\d .* vault 0x.*: the index says .*, the chain says .*, at block \d+\.$/;
  await waitUntil(
    "the difference is found",
    ask,
    60,
    (problem) => "type" in problem && problem.type === "/docs#problem-index-differs",
  );
  expect(await ask()).toMatchObject({ status: 503, detail: expect.stringMatching(detail) });

  await indexer.stop();
  const url = `${proxy.url},${subject.local.url}`;
  await startIndexer({ databaseUrl, chains: [{ chainId, url }, healthy] });
  await waitUntilIndexed(database, subject.local, { seconds: 150 });
  await subject.expectSameAnswers(databaseUrl, "registry", [1, 20, 40, 60]);
});
