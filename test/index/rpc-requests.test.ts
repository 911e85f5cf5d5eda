import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { countMethods, launchCountedChain } from "../support/indexed-chain.ts";
import { launchIndexer } from "../support/indexer.ts";
import type { RpcRequest } from "../support/rpc-proxy.ts";
import { createDatabase, waitUntilIndexed } from "../support/setup.ts";

// The requests of an indexer, with Ponder. `npm run rpc-cost` measures them for different kinds of networks.

const HISTORY = { blocks: 2_000, range: 100 };
const BLOCKS = 20;
/** At most one check of the last blocks in nine blocks, of two requests. */
const CHECKS = 2 * (Math.ceil(BLOCKS / 9) + 1);

let counted: Awaited<ReturnType<typeof launchCountedChain>>;
let indexer: Awaited<ReturnType<typeof launchIndexer>>;
let database: pg.Client;
let start: Record<string, number>;
beforeAll(async () => {
  counted = await launchCountedChain({ chainId: 8453, blockMs: 2_000, history: HISTORY });
  const databaseUrl = await createDatabase();
  database = new pg.Client(databaseUrl);
  await database.connect();
  indexer = await launchIndexer({ databaseUrl, chains: [counted] });
  await waitUntilIndexed(database, counted.chain);
  start = countMethods(counted.takeRequests());
});
afterAll(async () => {
  await indexer?.stop();
  await database?.end();
  await counted?.stop();
});

const isPoll = ({ method, params }: RpcRequest) => method === "eth_getBlockByNumber" && params[0] === "latest";

/** Mines blocks, and counts the requests for them, except polls. */
const countBlocks = async (logs: "registry" | "other" | "none") => {
  counted.takeRequests();
  for (let block = 0; block < BLOCKS; block++) {
    await counted.mine(logs);
    await sleep(100);
  }
  await waitUntilIndexed(database, counted.chain);
  return countMethods(counted.takeRequests().filter((request) => !isPoll(request)));
};

test("the history costs two requests per range, and the chain id is read once per part of the indexer", () => {
  const { eth_chainId = 0, eth_getLogs = 0 } = start;
  expect(eth_chainId).toBeLessThanOrEqual(4);
  // The size is found, Ponder begins with smaller ranges, and the last 512 blocks are requested once more.
  expect(eth_getLogs).toBeLessThan(2 * (HISTORY.blocks / HISTORY.range) + 60);
});

test("a block without the registries' logs costs one request", async () => {
  const { eth_getBlockByNumber = 0, eth_getLogs = 0, ...others } = await countBlocks("other");
  expect(eth_getBlockByNumber).toBeLessThan(BLOCKS);
  expect(eth_getLogs).toBeLessThanOrEqual(CHECKS);
  expect(others).toEqual({});
});

test.for(["none", "registry"] as const)("a block costs three requests if its logs are: %s", async (logs) => {
  const { eth_getBlockByNumber = 0, eth_getLogs = 0, ...others } = await countBlocks(logs);
  expect(eth_getBlockByNumber).toBeLessThan(BLOCKS);
  expect(eth_getLogs).toBeLessThanOrEqual(2 * BLOCKS + CHECKS);
  expect(others).toEqual({});
});
