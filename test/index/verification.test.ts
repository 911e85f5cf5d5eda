import { expect } from "vitest";
import { FRESH_FOR_A_DAY, startTestApi } from "../support/api.ts";
import { createRandomChain } from "../support/indexed-chain.ts";
import { startIndexer } from "../support/indexer.ts";
import { askNode, startRpcProxy } from "../support/rpc-proxy.ts";
import { connectClient, createDatabase, waitUntil, waitUntilIndexed } from "../support/setup.ts";
import { test } from "../support/test.ts";

const chainId = 8453;

type Log = { blockNumber: `0x${string}` };

/** Starts an endpoint whose log index has lost some blocks, however it is asked. Its blocks and receipts are true. */
const startLossyEndpoint = async (url: string, isLost: (block: number) => boolean) => {
  const endpoint = await startRpcProxy(url);
  endpoint.intercept = async (request) => {
    if (request.method !== "eth_getLogs") return undefined;
    const answer = await askNode(url, request);
    if (!("result" in answer)) return answer;
    return { result: (answer.result as Log[]).filter(({ blockNumber }) => !isLost(Number(blockNumber))) };
  };
  return endpoint.url;
};

test("an index without some logs is never served, and one that changes by itself no longer: both are repaired", async () => {
  const subject = await createRandomChain(chainId, 81, 60);
  const isLost = (block: number) => block % 3 === 0 && block < 25;
  const url = await startLossyEndpoint(subject.local.url, isLost);
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
