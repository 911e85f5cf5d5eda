import { createClient, http, numberToHex } from "viem";
import { expect } from "vitest";
import { encodeV2 } from "../../../local/calls.ts";
import { BlockMismatchError, readIndexSnapshot } from "../../support/index-state.ts";
import { waitUntil, waitUntilIndexed } from "../../support/setup.ts";
import { test as base } from "../../support/test.ts";
import { buildTransaction, type World, type WorldWallet } from "../../support/world.ts";

// A node, or one of several behind one URL, that lacks the newest blocks or some of their logs.
// Both tests share one chain and one indexer.

/** More blocks than Ponder keeps as not final on this chain. */
const DEEP = 65;

const test = base.extend("chainOptions", { seed: 41, blocks: DEEP + 5, overWebSocket: false });
test.afterEach(({ indexed }) => {
  indexed.proxy.intercept = () => undefined;
});

const readIndexedNumber = async (databaseUrl: string) =>
  (await readIndexSnapshot(databaseUrl, "registry", 8453))?.block.number;

const buildTwoDelegations = (world: World) => {
  const { v2, rights, wallets } = world;
  const [vault, delegate, otherVault, otherDelegate] = wallets;
  if (!delegate || !otherVault || !otherDelegate) throw new Error("The world lacks wallets.");
  const by = (from: WorldWallet, to: WorldWallet) =>
    buildTransaction(world, from, [{ target: v2, data: encodeV2("delegateAll", [to.address, rights[0], true]) }]);
  return [by(vault, delegate), by(otherVault, otherDelegate)];
};

test("the index is right at its block when the node's newest block moves back and forth, or far back", async ({
  indexed,
}) => {
  const { subject, proxy, databaseUrl, database, indexer } = indexed;
  const { local } = subject;
  const node = createClient({ transport: http(local.url) });
  const head = async () => Number(await local.client.getBlockNumber());
  let newest: (() => Promise<number>) | null = null;
  let polls = 0;
  let inFlight = 0;
  proxy.intercept = async ({ method, params }) => {
    if (!newest || method !== "eth_getBlockByNumber" || params[0] !== "latest") return undefined;
    polls++;
    inFlight++;
    const block = await node.request({ method, params: [numberToHex(await newest()), true] });
    inFlight--;
    return { result: block };
  };
  const waitForPolls = (times: number) => {
    const wanted = polls + times;
    return waitUntil("the indexer has asked for the newest block", () => polls >= wanted);
  };
  const compare = () => subject.expectSameAnswers(databaseUrl, "registry", [1, 4]);

  // Another node answers each poll, up to four blocks behind.
  let turn = 0;
  newest = async () => (await head()) - ([0, 3, 1, 4, 0, 2][turn++ % 6] ?? 0);
  for (let round = 0; round < 6; round++) {
    await subject.mineRandomBlocks(2);
    await waitForPolls(3);
    // The index may also name no block.
    await compare().catch((error) => {
      if (!(error instanceof BlockMismatchError)) throw error;
    });
  }
  newest = null;
  // Ponder treats a late answer as a reorg, as it is behind the next block.
  await waitUntil("no answer is late", () => inFlight === 0);
  await subject.mineEmptyBlocks(1);
  await waitUntilIndexed(database, local);
  await compare();

  // A new node is behind the final block: the index stays at its block until the node has caught up.
  const stayedAt = await head();
  newest = async () => stayedAt - DEEP;
  await waitForPolls(4);
  await compare();
  expect(await readIndexedNumber(databaseUrl)).toBe(BigInt(stayedAt));
  await subject.mineRandomBlocks(3);
  newest = null;
  await waitUntilIndexed(database, local);
  await compare();
  expect(indexer.output()).not.toContain("starting it again");
});

test.for([0, 1])("the index waits for a block when the node has %i of its two logs", async (kept, { indexed }) => {
  const { subject, proxy, databaseUrl, database, indexer } = indexed;
  const { chain, local, world } = subject;
  const node = createClient({ transport: http(local.url) });
  await subject.mineEmptyBlocks(1);
  await waitUntilIndexed(database, local);
  const before = await local.client.getBlockNumber();

  let cut = 0;
  proxy.intercept = async ({ method, params: [filter] }) => {
    if (method !== "eth_getLogs") return undefined;
    const logs = await node.request({ method, params: [filter as { blockHash: `0x${string}` }] });
    if (logs.length > kept) cut++;
    return { result: logs.slice(0, kept) };
  };
  await chain.mine(buildTwoDelegations(world));
  await waitUntil("the indexer asks for the logs again", () => cut > 3);
  // The next block does not get past it either.
  await subject.mineEmptyBlocks(1);
  await waitUntil("the indexer asks for the logs again", () => cut > 6);
  expect(await readIndexedNumber(databaseUrl)).toBe(before);

  proxy.intercept = () => undefined;
  await waitUntilIndexed(database, local);
  await subject.expectSameAnswers(databaseUrl, "registry", [1]);
  expect(indexer.output()).toContain("No node has all logs of block");
});
