import { type Address, createClient, http } from "viem";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { IndexerDatabase } from "../../indexer/database.ts";
import { preparePlan } from "../../indexer/prepare-plan.ts";
import { parseIndexerSettings } from "../../indexer/settings.ts";
import { findStartBlock } from "../../indexer/start-block.ts";
import { type Deployment, networks } from "../../registry/networks.ts";
import type { LocalChain } from "../../sandbox/chain.ts";
import { compileContracts } from "../../sandbox/contracts.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { connect, createChain, createDatabase, launchChain } from "../support/setup.ts";

const OPEN: Omit<Deployment, "address"> = {
  listedBy: "test",
  startBlock: null,
  startBlockFloor: null,
  deployedAfter: "2023-01-01T00:00:00Z",
  deployedBefore: "2100-01-01T00:00:00Z",
};

const addressOf = (deployedAt: number): Address => `0x${deployedAt.toString().padStart(40, "0")}`;
const deployedIn = (block: number): Deployment => ({ ...OPEN, address: addressOf(block) });
const DEPLOYED_AT_17 = deployedIn(17);

/** A chain of 40 blocks, with registries that appear in some of them. */
let chain: LocalChain;
beforeAll(async () => {
  chain = await launchChain(10200);
  const { DelegateRegistryV2 } = await compileContracts();
  for (let block = 1; block <= 40; block++) {
    await chain.client.mine({ blocks: 1 });
    // Hardhat writes it into the newest block's state.
    if ([1, 17, 40].includes(block)) {
      await chain.client.setCode({ address: addressOf(block), bytecode: DelegateRegistryV2 });
    }
  }
});
afterAll(() => chain?.stop());

const createRpc = async () => {
  const proxy = await startRpcProxy(chain.url);
  return { proxy, client: createClient({ transport: http(proxy.url, { retryCount: 0 }) }) };
};

/** A registry whose deployment is found with retries that do not wait. */
const find = (client: ReturnType<typeof createClient>, deployment: Deployment) =>
  findStartBlock(client, deployment, null, 0);

describe("findStartBlock() without a request", () => {
  const nowhere = createClient({ transport: http("http://127.0.0.1:9", { retryCount: 0 }) });
  const proven = { ...DEPLOYED_AT_17, startBlock: 100, startBlockFloor: 50 };

  test.for([
    ["the operator's setting first", proven, 7, { block: 7, source: "setting" }],
    ["the operator's setting, also block 0", proven, 0, { block: 0, source: "setting" }],
    ["a proven block", proven, null, { block: 100, source: "proven" }],
    ["else a proven floor", { ...DEPLOYED_AT_17, startBlockFloor: 0 }, null, { block: 0, source: "floor" }],
  ] as const)("takes %s", async ([, deployment, setting, expected]) => {
    expect(await findStartBlock(nowhere, deployment, setting)).toEqual(expected);
  });
});

describe("findStartBlock() on a chain", () => {
  test.for([1, 17, 40])("finds the deployment in block %i on an archive node", async (block) => {
    const { client, proxy } = await createRpc();
    expect(await find(client, deployedIn(block))).toEqual({ block, source: "discovered" });
    expect(proxy.seen.filter(({ method }) => method === "eth_getCode").length).toBeLessThan(12);
  });

  test("starts at block 0 where the node has no old state", async () => {
    const { client, proxy } = await createRpc();
    proxy.intercept = ({ method, params }) =>
      method === "eth_getCode" && Number(params[1]) < 30
        ? { error: { code: -32000, message: "missing trie node 2dd3c1 (path )" } }
        : undefined;
    expect(await find(client, DEPLOYED_AT_17)).toMatchObject({ block: 0, source: "genesis" });
  });

  test("starts at block 0 where the node passes missing state off as missing code", async () => {
    const { client, proxy } = await createRpc();
    proxy.intercept = ({ method, params }) =>
      method === "eth_getCode" && Number(params[1]) < 30 ? { result: "0x" } : undefined;
    const { timestamp } = await chain.client.getBlock({ blockNumber: 20n });
    const deployedBefore = new Date(Number(timestamp) * 1000).toISOString();
    expect(await find(client, { ...DEPLOYED_AT_17, deployedBefore })).toMatchObject({
      block: 0,
      source: "genesis",
      reason: expect.stringContaining("later than its known deployment"),
    });
  });

  test("starts at block 0 where a found block could not be checked", async () => {
    const { client } = await createRpc();
    expect(await find(client, { ...DEPLOYED_AT_17, deployedBefore: null })).toMatchObject({ block: 0 });
  });

  test("starts at block 0 where the registry is not deployed", async () => {
    const { client } = await createRpc();
    const reason = expect.stringContaining("not deployed");
    expect(await find(client, deployedIn(99))).toMatchObject({ block: 0, reason });
  });

  test("fails instead of guessing when the node goes away", async () => {
    const { client, proxy } = await createRpc();
    let requests = 0;
    proxy.intercept = () => (++requests > 4 ? { status: 503 } : undefined);
    await expect(find(client, DEPLOYED_AT_17)).rejects.toThrow();
  });

  test("asks a busy node again, and does not take it for one without old state", async () => {
    const { client, proxy } = await createRpc();
    let requests = 0;
    proxy.intercept = ({ method }) => (method === "eth_getCode" && ++requests % 3 !== 0 ? { status: 429 } : undefined);
    expect(await find(client, DEPLOYED_AT_17)).toEqual({ block: 17, source: "discovered" });
  });
});

test("preparePlan() stores a discovered start block, and does not search for it again", async () => {
  // Within the time in which this network is known to have got its v1.
  const chain = await createChain(10200, new Date("2022-12-01"));
  const address = networks.get(10200)?.v1?.address ?? "0x";
  const { DelegationRegistryV1 } = await compileContracts();
  await chain.client.setCode({ address, bytecode: "0x" });
  for (let block = 1; block <= 5; block++) {
    await chain.client.mine({ blocks: 1 });
    if (block === 3) await chain.client.setCode({ address, bytecode: DelegationRegistryV1 });
  }
  const proxy = await startRpcProxy(chain.url);
  const searches = () => proxy.seen.filter(({ method }) => method === "eth_getCode").length;
  const databaseUrl = await createDatabase();
  const lines: string[] = [];
  const prepare = async () => {
    const indexer = await IndexerDatabase.connect(databaseUrl);
    onTestFinished(() => indexer.close());
    return preparePlan(parseIndexerSettings({ PONDER_RPC_URL_10200: proxy.url }), indexer, (line) => lines.push(line));
  };

  const plan = await prepare();
  expect(plan.chains).toMatchObject([{ chainId: 10200, v1: { address, startBlock: 3 }, v2: null }]);
  expect(lines.join("\n")).toContain("registry v1 was deployed in block 3");
  const { rows } = await (await connect(databaseUrl)).query(
    "select chain_id, registry, block from indexer.start_block",
  );
  expect(rows).toEqual([{ chain_id: "10200", registry: "v1", block: "3" }]);
  const searched = searches();
  expect(searched).toBeGreaterThan(0);

  expect(await prepare()).toEqual(plan);
  expect(searches()).toBe(searched);
});
