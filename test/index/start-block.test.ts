import { createClient, http } from "viem";
import { describe, expect, test } from "vitest";
import { findStartBlock } from "../../indexer/start-block.ts";
import { type Deployment, networks } from "../../registry/networks.ts";
import { compileContracts } from "../../sandbox/contracts.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { connect, createChain, createDatabase, startIndexer, until } from "../support/setup.ts";

const OPEN: Deployment = {
  address: "0x00000000000000447e69651d841bD8D104Bed493",
  listedBy: "test",
  startBlock: null,
  startBlockFloor: null,
  deployedAfter: "2023-01-01T00:00:00Z",
  deployedBefore: "2100-01-01T00:00:00Z",
};

/** A chain without registries until the given block, in which v2 appears; 40 blocks in all. */
const createDeployment = async (deployedAt: number | null) => {
  // Gnosis Chiado has v1 only: v2's address is empty until we fill it.
  const chain = await createChain(10200);
  const code = await compileContracts();
  for (let block = 1; block <= 40; block++) {
    await chain.client.mine({ blocks: 1 });
    // Hardhat writes it into the newest block's state.
    if (block === deployedAt) await chain.client.setCode({ address: OPEN.address, bytecode: code.DelegateRegistryV2 });
  }
  const proxy = await startRpcProxy(chain.url);
  return { chain, proxy, client: createClient({ transport: http(proxy.url, { retryCount: 0 }) }) };
};

describe("findStartBlock() without asking the chain", () => {
  const nowhere = createClient({ transport: http("http://127.0.0.1:9", { retryCount: 0 }) });

  test("takes the operator's setting before all else, also block 0", async () => {
    const proven = { ...OPEN, startBlock: 100, startBlockFloor: 50 };
    expect(await findStartBlock(nowhere, proven, 7)).toEqual({ block: 7, source: "setting" });
    expect(await findStartBlock(nowhere, proven, 0)).toEqual({ block: 0, source: "setting" });
  });

  test("takes a proven block, else a proven floor", async () => {
    expect(await findStartBlock(nowhere, { ...OPEN, startBlock: 100, startBlockFloor: 50 }, null)).toEqual({
      block: 100,
      source: "proven",
    });
    expect(await findStartBlock(nowhere, { ...OPEN, startBlockFloor: 0 }, null)).toEqual({ block: 0, source: "floor" });
  });
});

describe("findStartBlock() on a chain", () => {
  test.each([1, 17, 40])("finds the deployment in block %i on an archive node", async (deployedAt) => {
    const { client, proxy } = await createDeployment(deployedAt);
    expect(await findStartBlock(client, OPEN, null)).toEqual({ block: deployedAt, source: "discovered" });
    expect(proxy.seen.filter(({ method }) => method === "eth_getCode").length).toBeLessThan(12);
  });

  test("starts at block 0 where the node has no old state", async () => {
    const { client, proxy } = await createDeployment(17);
    proxy.intercept = ({ method, params }) =>
      method === "eth_getCode" && Number(params[1]) < 30
        ? { error: { code: -32000, message: "missing trie node 2dd3c1 (path )" } }
        : undefined;
    expect(await findStartBlock(client, OPEN, null)).toMatchObject({ block: 0, source: "genesis" });
  });

  test("starts at block 0 where the node passes missing state off as missing code", async () => {
    const { client, proxy, chain } = await createDeployment(17);
    proxy.intercept = ({ method, params }) =>
      method === "eth_getCode" && Number(params[1]) < 30 ? { result: "0x" } : undefined;
    const { timestamp } = await chain.client.getBlock({ blockNumber: 20n });
    const deployedBefore = new Date(Number(timestamp) * 1000).toISOString();
    expect(await findStartBlock(client, { ...OPEN, deployedBefore }, null)).toMatchObject({
      block: 0,
      source: "genesis",
      reason: expect.stringContaining("later than its known deployment"),
    });
  });

  test("starts at block 0 where a found block could not be checked", async () => {
    const { client } = await createDeployment(17);
    expect(await findStartBlock(client, { ...OPEN, deployedBefore: null }, null)).toMatchObject({ block: 0 });
  });

  test("starts at block 0 where the registry is not deployed", async () => {
    const { client } = await createDeployment(null);
    expect(await findStartBlock(client, OPEN, null)).toMatchObject({
      block: 0,
      reason: expect.stringContaining("not deployed"),
    });
  });

  test("fails rather than guesses when the node goes away", async () => {
    const { client, proxy } = await createDeployment(17);
    let requests = 0;
    proxy.intercept = () => (++requests > 4 ? { status: 503 } : undefined);
    await expect(findStartBlock(client, OPEN, null)).rejects.toThrow();
  });

  test("does not take a node that is busy for one without old state", async () => {
    const { client, proxy } = await createDeployment(17);
    let requests = 0;
    proxy.intercept = ({ method }) => (method === "eth_getCode" && ++requests % 3 !== 0 ? { status: 429 } : undefined);
    expect(await findStartBlock(client, OPEN, null)).toEqual({ block: 17, source: "discovered" });
  });
});

test("a discovered start block is remembered: a restart does not look for it again", async () => {
  // Within the time in which this network is known to have got its v1.
  const chain = await createChain(10200, new Date("2022-12-01"));
  const address = networks.get(10200)?.v1?.address ?? "0x";
  await chain.client.setCode({ address, bytecode: "0x" });
  for (let block = 1; block <= 5; block++) {
    await chain.client.mine({ blocks: 1 });
    const { DelegationRegistryV1 } = await compileContracts();
    if (block === 3) await chain.client.setCode({ address, bytecode: DelegationRegistryV1 });
  }
  const proxy = await startRpcProxy(chain.url);
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  const chains = [{ chainId: 10200, url: proxy.url }];
  const searches = () => proxy.seen.filter(({ method }) => method === "eth_getCode").length;

  const first = await startIndexer({ databaseUrl, chains, env: { START_BLOCK_10200: "" } });
  await until("the indexer is ready", async () => first.output().includes("is ready"));
  const { rows } = await database.query("select chain_id, registry, block from indexer.start_block");
  expect(rows).toEqual([{ chain_id: "10200", registry: "v1", block: "3" }]);
  expect(first.output()).toContain("registry v1 was deployed in block 3");
  const searched = searches();
  expect(searched).toBeGreaterThan(0);
  await first.stop();

  const second = await startIndexer({ databaseUrl, chains, env: { START_BLOCK_10200: "" } });
  await until("the indexer is ready again", async () => second.output().includes("is ready"));
  expect(searches()).toBe(searched);
});
