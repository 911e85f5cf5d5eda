import { createClient, http } from "viem";
import { expect, test } from "vitest";
import { encodeV2 } from "../../../sandbox/calls.ts";
import { readSnapshot } from "../../support/index-state.ts";
import { createIndexedSubject } from "../../support/indexed-subject.ts";
import { Random } from "../../support/random.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { connect, createDatabase, startIndexer, until, untilIndexed } from "../../support/setup.ts";
import { Subject } from "../../support/subject.ts";
import { transactionBy, type Wallet, type World } from "../../support/world.ts";

// Nodes that have a block, and not, or not yet, all of its logs.

/** More than are final at once, so that some are read as a range and some one by one. */
const HISTORY = 45;

/** Two people delegate to two others. */
const twoDelegations = (world: World) => {
  const { v2, rights, wallets } = world;
  const [vault, delegate, otherVault, otherDelegate] = wallets;
  if (!delegate || !otherVault || !otherDelegate) throw new Error("The world lacks wallets.");
  const by = (from: Wallet, to: Wallet) =>
    transactionBy(world, from, [{ target: v2, data: encodeV2("delegateAll", [to.address, rights[0], true]) }]);
  return [by(vault, delegate), by(otherVault, otherDelegate)];
};

const isRange = (params: unknown[]) => JSON.stringify(params).includes("fromBlock");

test("a live block whose logs are not there, or not all, is waited for: nothing of it is lost", async () => {
  const { subject, proxy, databaseUrl, database, indexer } = await createIndexedSubject(23, 3);
  const { chain, local, world } = subject;
  const node = createClient({ transport: http(local.url) });
  const indexed = async () => (await readSnapshot(databaseUrl, "registry", local.chainId))?.block.number;

  for (const kept of [0, 1]) {
    await subject.mineEmptyBlocks(1);
    await untilIndexed(database, local);
    const before = await local.client.getBlockNumber();
    let cut = 0;
    proxy.intercept = async ({ method, params: [filter] }) => {
      if (method !== "eth_getLogs") return undefined;
      const logs = await node.request({ method, params: [filter as { blockHash: `0x${string}` }] });
      if (logs.length > kept) cut++;
      return { result: logs.slice(0, kept) };
    };
    await chain.mine(twoDelegations(world));
    await until("its logs are asked for again", async () => cut > 3);
    // The next block does not lead past it either.
    await subject.mineEmptyBlocks(1);
    await until("and again", async () => cut > 6);
    expect(await indexed()).toBe(before);

    proxy.intercept = () => undefined;
    await untilIndexed(database, local);
    await subject.expectSameAnswers(databaseUrl, "registry", [1]);
  }
  expect(indexer.output()).toContain("No node has all logs of block");
});

test("logs of old blocks that one of two endpoints does not have are taken from the other", async () => {
  const subject = await Subject.create(8453, new Random(29));
  await subject.mineRandomBlocks(HISTORY);
  const { local } = subject;
  const [forgetful, whole] = [await startRpcProxy(local.url), await startRpcProxy(local.url)];
  let forgotten = 0;
  forgetful.intercept = ({ method, params }) => {
    if (method !== "eth_getLogs" || !isRange(params)) return undefined;
    forgotten++;
    return { result: [] };
  };
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  const url = `${forgetful.url},${whole.url}`;
  const indexer = await startIndexer({ databaseUrl, chains: [{ chainId: local.chainId, url }] });
  await untilIndexed(database, local);
  expect(forgotten).toBeGreaterThan(0);
  await subject.expectSameAnswers(databaseUrl, "registry", [5, HISTORY - 5]);
  expect(indexer.output()).toContain(`${forgetful.url} lacks logs`);
});

test("a node that has not reached the blocks whose logs it is asked for is not believed that there are none", async () => {
  const subject = await Subject.create(8453, new Random(31));
  await subject.mineRandomBlocks(HISTORY);
  const { local } = subject;
  const proxy = await startRpcProxy(local.url);
  // Its provider's other nodes know the newest block; this one is behind, and knows of no logs.
  proxy.intercept = ({ method, params }) => {
    if (method === "eth_blockNumber") return { result: "0x5" };
    return method === "eth_getLogs" && isRange(params) ? { result: [] } : undefined;
  };
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  await startIndexer({ databaseUrl, chains: [{ chainId: local.chainId, url: proxy.url }] });
  const asked = () => proxy.seen.filter(({ method }) => method === "eth_blockNumber").length;
  await until("it is asked how far it is", async () => asked() > 3);
  const { rows } = await database.query("select to_regclass('registry.indexed_block') as view");
  expect(rows).toEqual([{ view: null }]);

  proxy.intercept = () => undefined;
  await untilIndexed(database, local);
  await subject.expectSameAnswers(databaseUrl, "registry", [5, HISTORY - 5]);
});
