import { numberToHex } from "viem";
import { describe, expect } from "vitest";
import { buildContractRevocation, type launchIndexedSubject, readNewestBlock } from "../../support/indexed-chain.ts";
import { waitUntil, waitUntilIndexed } from "../../support/setup.ts";
import { test as base } from "../../support/test.ts";

// All tests share one chain and one indexer, and leave the index at the newest block.

const SECONDS_TO_UNDO = 10;
/** A bloom filter without the registries' logs, so that the indexer requests none. */
const NO_REGISTRY_LOGS = `0x${"0".repeat(511)}1`;
const hashOf = (byte: string) => `0x${byte.repeat(32)}`;

const test = base.extend("chainOptions", { seed: 7, blocks: 12, overWebSocket: false });
test.afterEach(({ indexed }) => {
  indexed.proxy.intercept = () => undefined;
});

type Indexed = Awaited<ReturnType<typeof launchIndexedSubject>>;

const untilRight = async ({ subject, database, databaseUrl }: Indexed, seconds = 60) => {
  await waitUntilIndexed(database, subject.local, { seconds });
  await subject.expectSameAnswers(databaseUrl, "registry");
};

/** Returns a function that tells if the indexer has restarted Ponder since. */
const watchRestarts = ({ indexer }: Indexed) => {
  const printed = indexer.output().length;
  return () => indexer.output().slice(printed).includes("starting it again");
};

describe("without a restart", () => {
  test.for([
    ["its logs are being fetched", "eth_getLogs", 0],
    ["a revocation in it is being looked up", "eth_call", 0],
    ["a revocation in it is being looked up, with the blocks after it", "eth_call", 3],
  ] as const)("a block orphaned while %s is reverted within 10 s", async ([, method, after], { indexed }) => {
    const { subject, proxy } = indexed;
    const { chain, local, world } = subject;
    const hasRestarted = watchRestarts(indexed);
    const before = await readNewestBlock(local.url);

    let isHeld = false;
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    // The indexer sees all these blocks at once and fetches them together.
    let isMined = false;
    proxy.intercept = async (request) => {
      if (!isMined && request.method === "eth_getBlockByNumber") return { result: before };
      if (request.method !== method) return undefined;
      isHeld = true;
      await released;
      return undefined;
    };
    await chain.mine([buildContractRevocation(world)]);
    await subject.mineRandomBlocks(after);
    isMined = true;
    await waitUntil(`the indexer has sent ${method}`, () => isHeld);

    await chain.revertBlocks(1 + after);
    await subject.mineRandomBlocks(2 + after);
    release();
    await untilRight(indexed, SECONDS_TO_UNDO);
    expect(hasRestarted()).toBe(false);
  });

  test("a node that returns a block of an abandoned fork late leaves no wrong row", async ({ indexed }) => {
    const { subject, proxy, database } = indexed;
    const { chain, local } = subject;
    const hasRestarted = watchRestarts(indexed);
    await subject.mineEmptyBlocks(2);
    await waitUntilIndexed(database, local);

    // The indexer does not see the next block until the chain has replaced it and two before it.
    const pinned = await readNewestBlock(local.url);
    proxy.intercept = ({ method, params }) =>
      method === "eth_getBlockByNumber" && params[0] === "latest" ? { result: pinned } : undefined;
    await subject.mineEmptyBlocks(1);
    const late = { ...(await readNewestBlock(local.url)), logsBloom: NO_REGISTRY_LOGS };
    await chain.revertBlocks(3);
    await subject.mineRandomBlocks(3);
    proxy.intercept = () => undefined;
    await waitUntilIndexed(database, local);

    let hasWalked = false;
    proxy.intercept = ({ method, params }) => {
      if (method === "eth_getBlockByHash") hasWalked = true;
      return method === "eth_getBlockByNumber" && params[0] === "latest" && !hasWalked ? { result: late } : undefined;
    };
    await waitUntil("the indexer asks for the fork's parent", () => hasWalked);
    await chain.revertBlocks(1);
    await subject.mineRandomBlocks(2);
    await untilRight(indexed, SECONDS_TO_UNDO);
    expect(hasRestarted()).toBe(false);
  });
});

describe("with a restart", () => {
  test("a revocation that a node on a fork cannot resolve hides the chain until it is resolved", async ({
    indexed,
  }) => {
    const { subject, proxy, database } = indexed;
    const { chain, local, world } = subject;
    const hasRestarted = watchRestarts(indexed);

    // The node that gets the request for the state after the block has another block of that number.
    const number = (await local.client.getBlockNumber()) + 1n;
    let asked = 0;
    proxy.intercept = async ({ method, params }) => {
      if (method === "eth_call") return { error: { code: -32000, message: "header not found" } };
      if (method !== "eth_getBlockByNumber" || params[0] !== numberToHex(number)) return undefined;
      asked++;
      return { result: { ...(await readNewestBlock(local.url)), hash: hashOf("f0") } };
    };
    await chain.mine([buildContractRevocation(world)]);
    await waitUntil("the indexer treats the block as orphaned", () => asked > 0);
    const readBlocks = async () => (await database.query("select number from registry.indexed_block")).rows;
    await waitUntil("the index names no block", readBlocks, 60, (rows) => rows.length === 0);
    proxy.intercept = () => undefined;
    await chain.mine();
    await waitUntil("the indexer restarts Ponder", hasRestarted);
    await untilRight(indexed);
  });

  test("rows of a block that Ponder dropped without reverting it are reverted", async ({ indexed }) => {
    const { subject, proxy } = indexed;
    const { chain, local } = subject;
    const hasRestarted = watchRestarts(indexed);
    await subject.mineRandomBlocks(1);
    await untilRight(indexed);

    // The node returns a block of a fork, then no parent for it. Ponder drops its own newest block to make room, and
    // fails before it has reverted that block's rows.
    const forkBlock = {
      ...(await readNewestBlock(local.url)),
      hash: hashOf("f0"),
      parentHash: hashOf("f1"),
      transactions: [],
      logsBloom: NO_REGISTRY_LOGS,
    };
    let hasFailed = false;
    proxy.intercept = ({ method, params }) => {
      if (method === "eth_getBlockByNumber" && params[0] === "latest" && !hasFailed) return { result: forkBlock };
      if (method !== "eth_getBlockByHash") return undefined;
      hasFailed = true;
      return { result: null };
    };
    await waitUntil("the indexer asks for the fork's parent", () => hasFailed);
    // The chain replaces the dropped block, so that the next block fits Ponder's chain.
    await chain.revertBlocks(1);
    await subject.mineRandomBlocks(2);
    proxy.intercept = () => undefined;
    await waitUntil("the indexer restarts Ponder", hasRestarted);
    await untilRight(indexed);
  });
});
