import { createClient, http, numberToHex } from "viem";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { encodeV2 } from "../../../sandbox/calls.ts";
import { OtherBlockError } from "../../support/api-answers.ts";
import { readSnapshot } from "../../support/index-state.ts";
import { launchIndexedSubject } from "../../support/indexed-subject.ts";
import { until, untilIndexed } from "../../support/setup.ts";
import { transactionBy, type Wallet, type World } from "../../support/world.ts";

// A node, or one of several behind one URL, that does not have the newest blocks yet, or not all of their logs.
// One chain and one indexer for both tests.

/** More blocks than Ponder takes for not final on this chain. */
const DEEP = 65;

let indexed: Awaited<ReturnType<typeof launchIndexedSubject>>;
beforeAll(async () => {
  indexed = await launchIndexedSubject(41, DEEP + 5);
});
afterEach(() => {
  indexed.proxy.intercept = () => undefined;
});
afterAll(() => indexed?.stop());

const readIndexedNumber = async () => {
  const { databaseUrl, subject } = indexed;
  return (await readSnapshot(databaseUrl, "registry", subject.local.chainId))?.block.number;
};

const twoDelegations = (world: World) => {
  const { v2, rights, wallets } = world;
  const [vault, delegate, otherVault, otherDelegate] = wallets;
  if (!delegate || !otherVault || !otherDelegate) throw new Error("The world lacks wallets.");
  const by = (from: Wallet, to: Wallet) =>
    transactionBy(world, from, [{ target: v2, data: encodeV2("delegateAll", [to.address, rights[0], true]) }]);
  return [by(vault, delegate), by(otherVault, otherDelegate)];
};

test("a newest block that goes back and forth, and far back, leaves the index right at the block it names", async () => {
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
  const polled = (times: number) => {
    const wanted = polls + times;
    return until("the indexer has asked for the newest block", () => polls >= wanted);
  };
  const compare = () => subject.expectSameAnswers(databaseUrl, "registry", [1, 4]);

  // Each poll is answered by another node, up to four blocks behind.
  let turn = 0;
  newest = async () => (await head()) - ([0, 3, 1, 4, 0, 2][turn++ % 6] ?? 0);
  for (let round = 0; round < 6; round++) {
    await subject.mineRandomBlocks(2);
    await polled(3);
    // An index that names no block is fine too.
    await compare().catch((error) => {
      if (!(error instanceof OtherBlockError)) throw error;
    });
  }
  newest = null;
  // Ponder takes a late answer for a reorg: it is behind the block after it.
  await until("no answer is late", () => inFlight === 0);
  await subject.mineEmptyBlocks(1);
  await untilIndexed(database, local);
  await compare();

  // A node that was set up anew, behind the final block: the index stays where it is until the node is back.
  const stayedAt = await head();
  newest = async () => stayedAt - DEEP;
  await polled(4);
  await compare();
  expect(await readIndexedNumber()).toBe(BigInt(stayedAt));
  await subject.mineRandomBlocks(3);
  newest = null;
  await untilIndexed(database, local);
  await compare();
  expect(indexer.output()).not.toContain("starting it again");
});

test.for([0, 1])("the index waits for a block of which the node has %i of two logs", async (kept) => {
  const { subject, proxy, databaseUrl, database, indexer } = indexed;
  const { chain, local, world } = subject;
  const node = createClient({ transport: http(local.url) });
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
  await until("the indexer asks for the logs again", () => cut > 3);
  // The next block does not lead past it either.
  await subject.mineEmptyBlocks(1);
  await until("the indexer asks for the logs again", () => cut > 6);
  expect(await readIndexedNumber()).toBe(before);

  proxy.intercept = () => undefined;
  await untilIndexed(database, local);
  await subject.expectSameAnswers(databaseUrl, "registry", [1]);
  expect(indexer.output()).toContain("No node has all logs of block");
});
