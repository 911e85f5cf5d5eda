import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { test as base, expect } from "vitest";
import { countMethods, launchCountedChain } from "../support/indexed-chain.ts";
import { launchIndexer } from "../support/indexer.ts";
import type { RpcRequest } from "../support/rpc-proxy.ts";
import { createDatabase, waitUntilIndexed } from "../support/setup.ts";

// The requests of an indexer, with Ponder. `npm run rpc-cost` measures them for different kinds of networks.

const HISTORY = { blocks: 2_000, range: 100 };
const BLOCKS = 20;
/** At most one check of the last blocks in nine blocks, of two requests. */
const CHECKS = 2 * (Math.ceil(BLOCKS / 9) + 1);

const test = base.extend("indexed", { scope: "file" }, async ({}, { onCleanup }) => {
  const counted = await launchCountedChain({ chainId: 8453, blockMs: 2_000, history: HISTORY });
  const databaseUrl = await createDatabase();
  const database = new pg.Client(databaseUrl);
  await database.connect();
  const indexer = await launchIndexer({ databaseUrl, chains: [counted] });
  onCleanup(async () => {
    await indexer.stop();
    await database.end();
    await counted.stop();
  });
  await waitUntilIndexed(database, counted.chain);
  return { counted, database, start: countMethods(counted.takeRequests()) };
});

type Counted = Awaited<ReturnType<typeof launchCountedChain>>;

const isPoll = ({ method, params }: RpcRequest) => method === "eth_getBlockByNumber" && params[0] === "latest";

/** Mines blocks, and counts the requests for them, except polls. */
const countBlocks = async (
  { counted, database }: { counted: Counted; database: pg.Client },
  logs: "registry" | "other" | "none",
) => {
  counted.takeRequests();
  for (let block = 0; block < BLOCKS; block++) {
    await counted.mine(logs);
    await sleep(100);
  }
  await waitUntilIndexed(database, counted.chain);
  return countMethods(counted.takeRequests().filter((request) => !isPoll(request)));
};

test("the history costs two requests per range, and the chain id is read once per part of the indexer", ({
  indexed,
}) => {
  const { eth_chainId = 0, eth_getLogs = 0 } = indexed.start;
  expect(eth_chainId).toBeLessThanOrEqual(4);
  // The size is found, Ponder begins with smaller ranges, and the last 512 blocks are requested once more.
  expect(eth_getLogs).toBeLessThan(2 * (HISTORY.blocks / HISTORY.range) + 60);
});

test("a block without the registries' logs costs one request", async ({ indexed }) => {
  const { eth_getBlockByNumber = 0, eth_getLogs = 0, ...others } = await countBlocks(indexed, "other");
  expect(eth_getBlockByNumber).toBeLessThan(BLOCKS);
  expect(eth_getLogs).toBeLessThanOrEqual(CHECKS);
  expect(others).toEqual({});
});

test.for(["none", "registry"] as const)(
  "a block costs three requests if its logs are: %s",
  async (logs, { indexed }) => {
    const { eth_getBlockByNumber = 0, eth_getLogs = 0, ...others } = await countBlocks(indexed, logs);
    expect(eth_getBlockByNumber).toBeLessThan(BLOCKS);
    expect(eth_getLogs).toBeLessThanOrEqual(2 * BLOCKS + CHECKS);
    expect(others).toEqual({});
  },
);
