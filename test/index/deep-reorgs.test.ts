import { createClient, http } from "viem";
import { expect, onTestFinished, test } from "vitest";
import { DeepReorgs } from "../../indexer/deep-reorgs.ts";
import { HeadFetcher } from "../../indexer/fetch-heads.ts";
import { formatCheckpoint } from "../../indexer/shards/checkpoint.ts";
import { readFinalBlocks } from "../../indexer/shards/final-blocks.ts";
import { saveHeads } from "../../indexer/shards/heads.ts";
import { IndexerDatabase } from "../../indexer/shards/index-database.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { connectClient, createChain, createDatabase, waitUntil } from "../support/setup.ts";

const SCHEMA = "registry_0000000001";
/** Blocks after which Ponder treats a block as final. */
const FINALITY = 30;
const MINUTE = 60_000;

/** Prepares a chain of 40 blocks with two endpoints, and an index that has them. */
const setUp = async () => {
  const { client: chain, chainId, url } = await createChain(8453);
  await chain.mine({ blocks: 5 });
  const snapshot = await chain.snapshot();
  await chain.mine({ blocks: 35 });
  const proxy = await startRpcProxy(url);
  const databaseUrl = await createDatabase();
  const client = await connectClient(databaseUrl);
  const database = await IndexerDatabase.connect(databaseUrl);
  onTestFinished(() => database.close());
  await database.takeIndex("registry", SCHEMA);
  await client.query(`create schema ${SCHEMA}`);
  await client.query(`create table ${SCHEMA}.indexed_block (chain_id bigint, number bigint, hash text)`);
  await client.query(
    `create table ${SCHEMA}._ponder_checkpoint (chain_id bigint, latest_checkpoint text, finalized_checkpoint text)`,
  );

  const registry = { address: "0x00000000000000447e69651d841bD8D104Bed493", startBlock: 0 } as const;
  const chains = [{ chainId, name: "Base", rpcUrls: [url, proxy.url], wsUrl: null, v1: null, v2: registry }];
  const plan = { chains, pollingIntervalMs: 1000 };
  const headFetcher = new HeadFetcher(plan);
  const deepReorgs = new DeepReorgs({ schema: SCHEMA, plan, database, headFetcher, log: () => {} });
  const start = async () => {
    const heads = await headFetcher.fetchAll();
    await deepReorgs.rewind(heads);
    await saveHeads(database.connection, SCHEMA, chains, heads);
  };
  await start();

  let now = 0;
  return {
    chain,
    url,
    proxy,
    client,
    /** Replaces all blocks after the fifth. */
    revert: () => chain.revert({ id: snapshot }),
    /** Indexes the chain up to its newest block. */
    index: async () => {
      const number = Number(await chain.getBlockNumber());
      const final = formatCheckpoint({ chainId, number: number - FINALITY, timestamp: 1n });
      await client.query(`truncate ${SCHEMA}.indexed_block, ${SCHEMA}._ponder_checkpoint`);
      await client.query(`insert into ${SCHEMA}.indexed_block values ($1, $2, '0x00')`, [chainId, number]);
      await client.query(`insert into ${SCHEMA}._ponder_checkpoint values ($1, $2, $2)`, [chainId, final]);
    },
    /** Checks the index a minute later, and again with what the endpoints have answered. */
    check: async () => {
      now += MINUTE;
      await deepReorgs.check(new Map(), now);
      await new Promise((resolve) => setTimeout(resolve, 100));
      return deepReorgs.check(await headFetcher.fetchAll(), now);
    },
    readFinalBlocks: async () =>
      (await readFinalBlocks(database.connection, SCHEMA, chainId)).stored.map(({ number }) => number),
  };
};

test("check() stores a final block when Ponder has indexed a block after the head", async () => {
  const { chain, index, check, readFinalBlocks } = await setUp();
  expect(await readFinalBlocks()).toEqual([10]);
  await chain.mine({ blocks: 5 });
  await index();
  expect(await check()).toBeUndefined();
  await check();
  expect(await readFinalBlocks()).toEqual([10]);
  const checkNextBlock = async () => {
    await chain.mine({ blocks: 1 });
    await index();
    await check();
    return readFinalBlocks();
  };
  const [stored] = await waitUntil("another block is stored", checkNextBlock, 30, ({ length }) => length > 1);
  expect(stored).toBeGreaterThanOrEqual(15);
  expect(stored).toBeLessThan(Number(await chain.getBlockNumber()) - FINALITY);
});

test("check() finds a final block that was replaced on all endpoints", async () => {
  const { chain, url, proxy, index, check, revert } = await setUp();
  await index();
  expect(await check()).toBeUndefined();
  const node = createClient({ transport: http(url) });
  const old = await node.request({ method: "eth_getBlockByNumber", params: ["0xa", false] });

  await revert();
  expect(await check(), "a chain that is shorter for a while").toBeUndefined();
  await chain.increaseTime({ seconds: 1000 });
  await chain.mine({ blocks: 40 });
  proxy.intercept = ({ method, params }) =>
    method === "eth_getBlockByNumber" && params[0] === "0xa" ? { result: old } : undefined;
  for (let round = 0; round < 30; round++) expect(await check(), "one endpoint has the block").toBeUndefined();
  proxy.intercept = () => undefined;
  const found = await waitUntil("the reorg is found", check, 30, (message) => message !== undefined);
  expect(found).toBe("Block 10 of chain 8453 was final, and is not on the chain any more");
});

test("check() returns a message when another index has found a reorg", async () => {
  const { client, index, check } = await setUp();
  await index();
  expect(await check()).toBeUndefined();
  await client.query("update indexer.chain set valid_number = 7");
  expect(await check()).toBe("Block 8 of chain 8453 was final, and is not on the chain any more");
});
