import { expect, test } from "vitest";
import { createRandomChain } from "../support/indexed-chain.ts";
import { startIndexer } from "../support/indexer.ts";
import { askNode, startRpcProxy } from "../support/rpc-proxy.ts";
import { connectClient, createDatabase, waitUntil, waitUntilIndexed } from "../support/setup.ts";

const chainId = 8453;

type Log = { blockNumber: `0x${string}` };

/** Starts an endpoint that loses the logs of some blocks. Receipts and filters of blocks are true. */
const startLossyEndpoint = async (url: string, loses: (block: number) => boolean) => {
  const endpoint = await startRpcProxy(url);
  const state = { isLying: true };
  endpoint.intercept = async (request) => {
    if (request.method !== "eth_getLogs" || !state.isLying) return undefined;
    const answer = await askNode(url, request);
    if (!("result" in answer)) return answer;
    return { result: (answer.result as Log[]).filter(({ blockNumber }) => !loses(Number(blockNumber))) };
  };
  return { url: endpoint.url, tellTheTruth: () => (state.isLying = false) };
};

test("an index with lost logs is not served, and repaired once an endpoint has them", async () => {
  const subject = await createRandomChain(chainId, 81, 60);
  const { url, tellTheTruth } = await startLossyEndpoint(subject.local.url, (block) => block % 3 === 0 && block < 25);
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const indexer = await startIndexer({ databaseUrl, chains: [{ chainId, url }] });

  await waitUntil("the difference is found", async () => /repair 1/.test(indexer.output()), 60);
  expect((await database.query("select from registry.indexed_block")).rows).toEqual([]);
  tellTheTruth();
  await waitUntilIndexed(database, subject.local, { seconds: 90 });
  await subject.expectSameAnswers(databaseUrl, "registry", [1, 20, 40]);
  console.log(indexer.output());
});
