import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished } from "vitest";
import { FRESH_FOR_A_DAY, startTestApi } from "../../support/api.ts";
import { createRandomChain } from "../../support/indexed-chain.ts";
import { startIndexer } from "../../support/indexer.ts";
import { type Behaviour, simulateProvider } from "../../support/provider.ts";
import type { ComparedChain } from "../../support/random-chain.ts";
import { askNode, type RpcRequest, type RpcResponse, startRpcProxy } from "../../support/rpc-proxy.ts";
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

/** Lets some methods of a node return no logs of some blocks. */
const loseLogs =
  (subject: ComparedChain, methods: readonly string[], isLost: (block: number) => boolean) =>
  async (request: RpcRequest): Promise<RpcResponse | undefined> => {
    if (!methods.includes(request.method)) return undefined;
    const answer = await askNode(subject.local.url, request);
    if (!("result" in answer)) return answer;
    const keep = ({ blockNumber }: { blockNumber: string }) => !isLost(Number(blockNumber));
    if (Array.isArray(answer.result)) return { result: answer.result.filter(keep) };
    const receipt = answer.result as { blockNumber: string; logs: unknown[] };
    return { result: keep(receipt) ? receipt : { ...receipt, logs: [] } };
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
    ["lacks a range", { logIndex: { defect: "without logs", first: 15, last: 30 } }],
    ["lacks everything below a block", { logsSince: 25 }],
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
  const proxy = await startRpcProxy(subject.local.url);
  // Its receipts have no logs either.
  proxy.intercept = loseLogs(subject, ["eth_getLogs", "eth_getTransactionReceipt"], (block) => block < 30);
  const healthy = { chainId: 10, url: other.local.url };
  const indexer = await startIndexer({ databaseUrl, chains: [{ chainId, url: proxy.url }, healthy] });
  await waitUntil("it was repaired in vain", async () => indexer.output().includes("repair 3."), 300);
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

test("an index without some logs is never served, and one that changes by itself no longer: both are repaired", async () => {
  const subject = await createRandomChain(chainId, 81, 60);
  const isLost = (block: number) => block % 3 === 0 && block < 25;
  const proxy = await startRpcProxy(subject.local.url);
  proxy.intercept = loseLogs(subject, ["eth_getLogs"], isLost);
  const { url } = proxy;
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const indexer = await startIndexer({ databaseUrl, chains: [{ chainId, url }] });

  await waitUntilIndexed(database, subject.local, { seconds: 120 });
  await subject.expectSameAnswers(databaseUrl, "registry", [1, 20, 40, 55]);
  const { host } = new URL(url);
  expect(indexer.output()).toMatch(/Base: v\d .*: the index says .*, the chain says .*, at block \d+\./);
  expect(indexer.output()).toContain(`http://${host} did not return them`);

  const api = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const { rows } = await database.query("select schema from indexer.shard");
  await database.query("set session_replication_role = replica");
  const remove = `delete from ${rows[0].schema}.delegation_v2 where ctid = (select min(ctid) from ${rows[0].schema}.delegation_v2)`;
  expect((await database.query(remove)).rowCount).toBe(1);
  // Each wallet is compared when a change of it is final.
  await subject.mineRandomBlocks(20);
  await subject.mineEmptyBlocks(40);
  const [wallet] = subject.world.wallets;
  const ask = async () => {
    const response = await api.get(`/registry/v2/${wallet?.address}?chainId=${chainId}`);
    return (await response.json()) as { type?: string; detail?: string };
  };
  const isFound = (type: string | undefined) => type === "/docs#problem-index-differs";
  await waitUntil("the difference is found", async () => (await ask()).type, 60, isFound);
  expect(await ask()).toMatchObject({ detail: expect.stringMatching(/differs from the registries.*the chain says/) });
  await waitUntilIndexed(database, subject.local, { seconds: 120 });
  await subject.expectSameAnswers(databaseUrl, "registry", [1, 20, 40, 55]);

  const status = await (await api.get("/status")).json();
  const verification = { wallets: expect.any(Number), block: expect.any(Number), at: expect.any(String) };
  expect(status).toMatchObject({ chains: [{ verification }] });
});
