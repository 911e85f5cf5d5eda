import { expect, test } from "vitest";
import { startTestApi, VAULT } from "../../support/api.ts";
import { readNewestBlock } from "../../support/indexed-chain.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import {
  connectClient,
  createChain,
  createDatabase,
  startIndexer,
  waitUntil,
  waitUntilIndexed,
} from "../../support/setup.ts";

test("a chain that stands still restarts Ponder, and does not keep the other chains from answering", async () => {
  const [stuck, other] = [await createChain(8453), await createChain(10)];
  for (const { client } of [stuck, other]) await client.mine({ blocks: 2 });
  const proxy = await startRpcProxy(stuck.url);
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const indexer = await startIndexer({
    databaseUrl,
    chains: [{ chainId: 8453, url: proxy.url }, other],
    env: { STALL_TIMEOUT_SECONDS: "5" },
  });
  await waitUntilIndexed(database, stuck);
  await waitUntilIndexed(database, other);
  const api = await startTestApi({ databaseUrl });
  const ask = async (chainId: number) => (await api.get(`/registry/v2/${VAULT}?chainId=${chainId}`)).status;
  const untilAnswered = (chainId: number) =>
    waitUntil(
      `chain ${chainId} answers`,
      () => ask(chainId),
      60,
      (status) => status === 200,
    );

  // Ponder polls for blocks with their transactions, the indexer for blocks without them.
  const old = await readNewestBlock(stuck.url);
  proxy.intercept = ({ method, params }) =>
    method === "eth_getBlockByNumber" && params[0] === "latest" && params[1] === true ? { result: old } : undefined;
  await stuck.client.mine({ blocks: 3 });
  await waitUntil("Ponder is restarted", async () => indexer.output().includes("Restarting Ponder (1 of 5"), 60);
  await waitUntil("Ponder has started", async () => indexer.output().split("Started live indexing").length > 4, 60);
  await untilAnswered(10);
  await other.client.mine({ blocks: 1 });
  await waitUntilIndexed(database, other);
  expect(await ask(8453)).toBe(503);

  proxy.intercept = () => undefined;
  await waitUntilIndexed(database, stuck);
  await untilAnswered(8453);
  const metrics = await api.metrics();
  expect(metrics).toMatch(/chain_restarts_total\{chain_id="8453".*\} [1-9]/);
  expect(metrics).toMatch(/chain_restarts_total\{chain_id="10".*\} 0/);
});
