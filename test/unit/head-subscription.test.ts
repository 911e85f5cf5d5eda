import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { ChainRpc } from "../../indexer/rpc/chain-rpc.ts";
import { launchHeadSocket, startRpcProxy } from "../support/rpc-proxy.ts";
import { createChain, waitUntil } from "../support/setup.ts";

const CHAIN = 8453;

const connect = async () => {
  const chain = await createChain(CHAIN);
  const proxy = await startRpcProxy(chain.url);
  const heads = await launchHeadSocket(chain.url);
  onTestFinished(heads.stop);
  const { request } = new ChainRpc({ chainId: CHAIN, urls: [proxy.url], wsUrl: heads.url }).transport({
    retryCount: 0,
  });
  const readNewest = async () => {
    const block = await request({ method: "eth_getBlockByNumber", params: ["latest", true] });
    return Number((block as { number: string }).number);
  };
  /** Counts the requests of some polls that reach the node. */
  const countRequests = async (polls: number) => {
    const before = proxy.seen.length;
    for (let poll = 0; poll < polls; poll++) await readNewest();
    return proxy.seen.length - before;
  };
  const mine = async () => {
    await chain.client.mine({ blocks: 1 });
    return Number(await chain.client.getBlockNumber());
  };
  const waitUntilQuiet = () =>
    waitUntil("polls are answered from memory", async () => (await countRequests(3)) === 0, 10);
  await waitUntil("the subscription is open", () => heads.subscriptions > 0, 10);
  return { chain, heads, request, readNewest, countRequests, mine, waitUntilQuiet };
};

test("a subscription answers polls from memory until a block is announced", async () => {
  const { mine, readNewest, countRequests, waitUntilQuiet } = await connect();
  await mine();
  await waitUntilQuiet();
  for (let round = 0; round < 3; round++) {
    const number = await mine();
    await waitUntil("the block is seen", async () => (await readNewest()) === number, 2);
    await waitUntilQuiet();
  }
  expect(await countRequests(50)).toBe(0);
});

test("a subscription answers no poll with a block that was requested without its transactions", async () => {
  const { chain, request, mine, countRequests, waitUntilQuiet } = await connect();
  await mine();
  await waitUntilQuiet();
  const [account = null] = chain.accounts;
  await chain.client.sendTransaction({ account, to: account, chain: null, gasPrice: 0n });
  await mine();
  await sleep(500);
  const readTransactions = async (isFull: boolean) => {
    const block = await request({ method: "eth_getBlockByNumber", params: ["latest", isFull] });
    return (block as { transactions: unknown[] }).transactions;
  };
  expect(await readTransactions(false)).toEqual([expect.any(String)]);
  expect(await readTransactions(true)).toEqual([expect.objectContaining({ hash: expect.any(String) })]);
  expect(await countRequests(3)).toBe(0);
});

test("a subscription without a block to announce answers polls from memory", async () => {
  const { countRequests, waitUntilQuiet } = await connect();
  await waitUntilQuiet();
  expect(await countRequests(50)).toBe(0);
});

test("a silent subscription delays a block by 5 s at most, once", async () => {
  const { heads, mine, readNewest, countRequests, waitUntilQuiet } = await connect();
  await mine();
  await waitUntilQuiet();
  heads.isSilent = true;
  const number = await mine();
  await waitUntil("the block is seen", async () => (await readNewest()) === number, 6);
  expect(await countRequests(5)).toBe(5);

  const next = await mine();
  expect(await readNewest()).toBe(next);
  heads.isSilent = false;
  await mine();
  await waitUntilQuiet();
});

test("a subscription that is closed is opened again, and polls reach the node meanwhile", async () => {
  const { heads, mine, readNewest, countRequests, waitUntilQuiet } = await connect();
  await mine();
  await waitUntilQuiet();
  const { subscriptions } = heads;
  heads.closeAll();
  await sleep(100);
  const number = await mine();
  expect(await readNewest()).toBe(number);
  await waitUntil("the subscription is open again", () => heads.subscriptions > subscriptions, 10);
  // The first block may come before the client knows that it is subscribed.
  const mineQuietly = async () => {
    await mine();
    await sleep(300);
    await readNewest();
    return (await countRequests(3)) === 0;
  };
  await waitUntil("polls are answered from memory", mineQuietly, 20);
});
