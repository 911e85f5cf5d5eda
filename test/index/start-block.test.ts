import { type Address, toHex } from "viem";
import { test as base, describe, expect, onTestFinished } from "vitest";
import { preparePlan } from "../../indexer/prepare-plan.ts";
import { createChainClient } from "../../indexer/rpc/chain-rpc.ts";
import { parseIndexerSettings } from "../../indexer/settings.ts";
import { IndexerDatabase } from "../../indexer/shards/index-database.ts";
import { findStartBlock } from "../../indexer/start-block.ts";
import type { LocalChain } from "../../local/chain.ts";
import { compileContracts } from "../../local/compile-contracts.ts";
import { type Deployment, networks } from "../../registry/networks.ts";
import { type Dialect, dialects } from "../support/provider.ts";
import { type RpcRequest, type RpcResponse, startRpcProxy } from "../support/rpc-proxy.ts";
import { connectClient, createChain, createDatabase, launchChain } from "../support/setup.ts";

const CHAIN_ID = 10200;
const DAY_S = 86_400;
const GENESIS = Date.parse("2022-12-01T00:00:00Z") / 1000;

/** Blocks are a day apart. */
const timestampOf = (block: number) => GENESIS + block * DAY_S;
const timeOf = (block: number) => new Date(timestampOf(block) * 1000).toISOString();

const mineBlock = async (chain: LocalChain, block: number) => {
  await chain.client.setNextBlockTimestamp({ timestamp: BigInt(timestampOf(block)) });
  // Hardhat returns the state of a block without transactions too. Other chains deploy by a transaction.
  const [account = "0x"] = chain.accounts;
  await chain.client.sendTransaction({ account, to: account, chain: null });
  await chain.client.mine({ blocks: 1 });
};

const addressOf = (deployedAt: number): Address => `0x${deployedAt.toString().padStart(40, "0")}`;
const deployedIn = (block: number): Deployment => ({
  listedBy: "test",
  address: addressOf(block),
  startBlock: null,
  startBlockFloor: null,
  deployedAfter: timeOf(block - 2),
  deployedBefore: timeOf(block + 3),
});
const DEPLOYED_AT_17 = deployedIn(17);
/** The last block before the deployment by time: more than a day before block 15. */
const BY_TIME = { block: 13, source: "time" };

type Interceptor = (request: RpcRequest) => RpcResponse | undefined;

const test = base
  /** A chain of 40 blocks, with registries deployed in some of them. */
  .extend("chain", { scope: "file" }, async ({}, { onCleanup }) => {
    const chain = await launchChain(CHAIN_ID, new Date(GENESIS * 1000));
    onCleanup(() => chain.stop());
    const { DelegateRegistryV2 } = await compileContracts();
    for (let block = 1; block <= 40; block++) {
      await mineBlock(chain, block);
      // Hardhat sets the code in the newest block's state.
      if ([1, 17, 40].includes(block)) {
        await chain.client.setCode({ address: addressOf(block), bytecode: DelegateRegistryV2 });
      }
    }
    return chain;
  })
  .extend("createRpc", ({ chain }) => async (intercept: Interceptor = () => undefined) => {
    const proxy = await startRpcProxy(chain.url);
    proxy.intercept = intercept;
    return { proxy, client: createChainClient(CHAIN_ID, [proxy.url]) };
  })
  /** Finds a start block with retries that do not wait. */
  .extend("find", ({ createRpc }) => async (deployment: Deployment, ...interceptors: (Interceptor | undefined)[]) => {
    const rpcs = await Promise.all(interceptors.map((intercept) => createRpc(intercept)));
    const clients = rpcs.map(({ client }) => client);
    return findStartBlock(clients, deployment, null, 0);
  });

const STATE_METHODS = ["eth_getCode", "eth_getBalance", "eth_getTransactionCount"];

/** Answers requests for the state before a block. */
const pruneState =
  (before: number, answer: (request: RpcRequest) => RpcResponse | undefined): Interceptor =>
  (request) =>
    STATE_METHODS.includes(request.method) && Number(request.params[1]) < before ? answer(request) : undefined;

const missingTrieNode = () => ({ error: { code: -32000, message: "missing trie node 2dd3c1 (path )" } });
const noState = pruneState(30, missingTrieNode);

const archiveStatus = () => ({
  status: 403,
  body: '{"error":{"code":-32000,"message":"Upgrade your plan for archive data."}}',
});
const prunedHistory = () => ({ error: { code: 4444, message: "pruned history unavailable" } });
const emptyAccount = ({ method }: RpcRequest) => ({ result: method === "eth_getCode" ? "0x" : "0x0" });
const newestState = ({ method }: RpcRequest) => ({ result: method === "eth_getCode" ? "0x6001" : "0xff" });

/** Answers as a node that has no state before block 30, and answers requests for blocks before another one. */
const pruneBlocks =
  (before: number, answer: (request: RpcRequest) => RpcResponse): Interceptor =>
  (request) =>
    request.method === "eth_getBlockByNumber" && Number(request.params[0]) < before
      ? answer(request)
      : noState(request);

/** Answers with a header of another time. */
const blockOfTime =
  (timestamp: number) =>
  ({ params }: RpcRequest): RpcResponse => ({
    result: { number: params[0], timestamp: toHex(timestamp), transactions: [], uncles: [] },
  });

describe("findStartBlock() returns without a request", () => {
  const proven = { ...DEPLOYED_AT_17, startBlock: 100, startBlockFloor: 50 };

  test.for([
    ["the operator's setting first", 7, { block: 7, source: "setting" }],
    ["the operator's setting, also block 0", 0, { block: 0, source: "setting" }],
    ["a proven block otherwise", null, { block: 100, source: "proven" }],
  ] as const)("%s", async ([, setting, expected]) => {
    const nowhere = createChainClient(CHAIN_ID, ["http://127.0.0.1:9"]);
    expect(await findStartBlock([nowhere], proven, setting)).toEqual(expected);
  });
});

describe("findStartBlock() finds the block of the deployment", () => {
  test.for([1, 17, 40])("in block %i on an archive node", async (block, { createRpc }) => {
    const { client, proxy } = await createRpc();
    expect(await findStartBlock([client], deployedIn(block), null, 0)).toEqual({ block, source: "discovered" });
    expect(proxy.seen.filter(({ method }) => method === "eth_getCode").length).toBeLessThan(12);
  });

  test("without a request for a block before the floor", async ({ createRpc }) => {
    const { client, proxy } = await createRpc();
    const start = await findStartBlock([client], { ...DEPLOYED_AT_17, startBlockFloor: 12 }, null, 0);
    expect(start).toEqual({ block: 17, source: "discovered" });
    const blocks = proxy.seen.filter(({ method }) => method === "eth_getCode").map(({ params }) => Number(params[1]));
    expect(Math.min(...blocks.filter((block) => !Number.isNaN(block)))).toBeGreaterThanOrEqual(12);
  });

  test("on a node that has only the state since shortly before", async ({ find }) => {
    expect(await find(DEPLOYED_AT_17, pruneState(14, missingTrieNode))).toEqual({ block: 17, source: "discovered" });
  });

  test.for([503, 429])("on a node that answers with status %i at times", async (status, { find }) => {
    let requests = 0;
    const busy: Interceptor = ({ method }) =>
      method === "eth_getCode" && [1, 4, 5].includes(++requests) ? { status } : undefined;
    expect(await find(DEPLOYED_AT_17, busy)).toEqual({ block: 17, source: "discovered" });
  });

  test.for([
    ["lacks old state", noState],
    ["does not answer", () => ({ status: 503 })],
  ] as const)("on the second endpoint when the first one %s", async ([, first], { find }) => {
    expect(await find(DEPLOYED_AT_17, first, undefined)).toEqual({ block: 17, source: "discovered" });
  });
});

describe("findStartBlock() finds a block by time", () => {
  const refusals = [
    ...Object.entries(dialects).flatMap(([name, { prunedState }]: [string, Dialect]) =>
      prunedState ? [{ name, answer: prunedState }] : [],
    ),
    ...[
      "required historical state unavailable (reexec=128)",
      "historical state 2dd3c1 is not available",
      "state is not available",
      "history has been pruned for this block",
      "This request is not supported because your node is running with state pruning. Run with --pruning=archive.",
      "header not found",
      "some words that no provider uses yet",
    ].map((message) => ({ name: message, answer: { error: { code: -32000, message } } })),
  ];
  test.for(refusals)("when old state is refused: $name", async ({ answer }, { find }) => {
    expect(
      await find(
        DEPLOYED_AT_17,
        pruneState(30, () => answer),
      ),
    ).toMatchObject({
      ...BY_TIME,
      reason: expect.stringContaining("no state of old blocks"),
    });
  });

  test.for([
    ["an HTTP status for archive requests", archiveStatus, 30],
    ["empty accounts", emptyAccount, 30],
    ["empty accounts, within the deployment window", emptyAccount, 19],
    ["the newest state", newestState, 30],
  ] as const)("when a node answers for old state with %s", async ([, answer, before], { find }) => {
    expect(await find(DEPLOYED_AT_17, pruneState(before, answer))).toMatchObject(BY_TIME);
  });

  test("when an archive node is unreachable and another node lacks old state", async ({ find }) => {
    const start = await find(DEPLOYED_AT_17, noState, () => ({ status: 503 }));
    expect(start).toMatchObject({ ...BY_TIME, reason: expect.stringContaining("does not answer") });
  });

  test("when a found block cannot be verified", async ({ find }) => {
    expect(await find({ ...DEPLOYED_AT_17, deployedBefore: null }, undefined)).toMatchObject(BY_TIME);
  });

  test("when the registry is not deployed", async ({ find }) => {
    const deployment = { ...DEPLOYED_AT_17, address: addressOf(99) };
    const reason = expect.stringContaining("not deployed");
    expect(await find(deployment, undefined)).toMatchObject({ ...BY_TIME, reason });
  });

  test("which is block 0 when the chain is younger than the deployment window", async ({ find }) => {
    const deployment = { ...DEPLOYED_AT_17, deployedAfter: "2022-09-22T19:09:54Z" };
    expect(await find(deployment, noState)).toMatchObject({ block: 0, source: "time" });
  });

  test.for([
    ["as pruned", prunedHistory],
    ["as unknown", () => ({ result: null })],
    ["with timestamps of 0", blockOfTime(0)],
  ] as const)("when blocks before it are reported %s", { timeout: 30_000 }, async ([, answer], { find }) => {
    expect(await find(DEPLOYED_AT_17, pruneBlocks(10, answer))).toMatchObject(BY_TIME);
  });

  test("on the second endpoint when the first one lacks old blocks", async ({ find }) => {
    const noBlocks = pruneBlocks(30, prunedHistory);
    expect(await find(DEPLOYED_AT_17, noBlocks, noState)).toMatchObject(BY_TIME);
  });
});

describe("findStartBlock() finds nothing", () => {
  const noBlocks = pruneBlocks(30, prunedHistory);

  test("and returns block 0 when the node has neither old state nor old blocks", async ({ find }) => {
    const reason = "the RPC is not an archive node: it has no state of old blocks; an RPC endpoint has no old blocks";
    expect(await find(DEPLOYED_AT_17, noBlocks)).toEqual({ block: 0, source: "genesis", reason });
  });

  test("and returns the floor of the table instead, if there is one", async ({ find }) => {
    const start = await find({ ...DEPLOYED_AT_17, startBlockFloor: 5 }, noBlocks);
    expect(start).toMatchObject({ block: 5, source: "floor" });
  });

  test("in blocks whose timestamps are not in order", async ({ find }) => {
    const reason = expect.stringContaining("not in order");
    // Block 20 and earlier ones seem to be younger than the newest one.
    const disordered = pruneBlocks(21, blockOfTime(timestampOf(99)));
    expect(await find(DEPLOYED_AT_17, disordered)).toMatchObject({ block: 0, reason });
  });

  test("in blocks with timestamps of 0, which are not earlier than the deployment", async ({ find }) => {
    expect(await find(DEPLOYED_AT_17, pruneBlocks(25, blockOfTime(0)))).toMatchObject({ block: 0, source: "genesis" });
  });

  test("on a node that has not reached the deployment", async ({ find }) => {
    const deployment = { ...DEPLOYED_AT_17, address: addressOf(99), deployedAfter: timeOf(50) };
    const reason = expect.stringContaining("not reached");
    expect(await find(deployment, undefined)).toMatchObject({ block: 0, reason });
  });

  test("and throws when the node goes down", async ({ find }) => {
    let requests = 0;
    await expect(find(DEPLOYED_AT_17, () => (++requests > 6 ? { status: 503 } : undefined))).rejects.toThrow();
  });

  test("and throws when only an unreachable node may have old blocks", async ({ find }) => {
    await expect(find(DEPLOYED_AT_17, noBlocks, () => ({ status: 503 }))).rejects.toThrow();
  });
});

describe("preparePlan()", () => {
  const address = networks.get(CHAIN_ID)?.v1?.address ?? "0x";

  /** A chain whose registry was deployed in block 3, within this network's known window, and whose state is pruned. */
  const setUp = async () => {
    const chain = await createChain(CHAIN_ID, new Date(GENESIS * 1000));
    const { DelegationRegistryV1 } = await compileContracts();
    await chain.client.setCode({ address, bytecode: "0x" });
    for (let block = 1; block <= 5; block++) {
      await mineBlock(chain, block);
      if (block === 3) await chain.client.setCode({ address, bytecode: DelegationRegistryV1 });
    }
    const proxy = await startRpcProxy(chain.url);
    const databaseUrl = await createDatabase();
    const database = await connectClient(databaseUrl);
    const lines: string[] = [];
    return {
      proxy,
      database,
      lines,
      countSearches: () => proxy.seen.filter(({ method }) => method === "eth_getCode").length,
      readStored: async () => (await database.query("select registry, block from indexer.start_block")).rows,
      prepare: async () => {
        const indexer = await IndexerDatabase.connect(databaseUrl);
        onTestFinished(() => indexer.close());
        const settings = parseIndexerSettings({ [`PONDER_RPC_URL_${CHAIN_ID}`]: proxy.url });
        const { chains } = await preparePlan(settings, indexer, (line) => lines.push(line));
        return chains[0]?.v1?.startBlock;
      },
    };
  };

  test("stores a discovered start block, and does not search for it again", async () => {
    const { prepare, countSearches, readStored, lines } = await setUp();
    expect(await prepare()).toBe(3);
    expect(lines.join("\n")).toContain("registry v1 was deployed in block 3");
    expect(await readStored()).toEqual([{ registry: "v1", block: "3" }]);
    const searches = countSearches();
    expect(searches).toBeGreaterThan(0);

    expect(await prepare()).toBe(3);
    expect(countSearches()).toBe(searches);
  });

  test("keeps a start block found by time when a better endpoint is added, and does not re-index", async () => {
    const { prepare, proxy, readStored, lines } = await setUp();
    // The first blocks are from before this network's window.
    const answerOlder = (request: RpcRequest) => blockOfTime(timestampOf(Number(request.params[0]) - 75))(request);
    proxy.intercept = (request) =>
      request.method === "eth_getBlockByNumber" && Number(request.params[0]) < 3
        ? answerOlder(request)
        : noState(request);
    expect(await prepare()).toBe(2);
    expect(lines.join("\n")).toContain(
      "registry v1 is indexed from block 2, the last one before its deployment by time",
    );
    expect(await readStored()).toEqual([{ registry: "v1", block: "2" }]);

    proxy.intercept = () => undefined;
    expect(await prepare()).toBe(2);
  });

  test("starts at block 0 when nothing is found, stores nothing, and uses a better endpoint later", async () => {
    const { prepare, proxy, database, readStored, lines } = await setUp();
    proxy.intercept = pruneBlocks(5, prunedHistory);
    expect(await prepare()).toBe(0);
    expect(lines.join("\n")).toContain(
      "registry v1 is indexed from block 0, the first one of the chain: the RPC is not an archive node",
    );
    expect(await readStored()).toEqual([]);

    // Earlier versions stored a failed search.
    await database.query("insert into indexer.start_block values ($1, 'v1', $2, 0)", [CHAIN_ID, address.toLowerCase()]);
    proxy.intercept = () => undefined;
    expect(await prepare()).toBe(3);
    expect(await readStored()).toEqual([{ registry: "v1", block: "3" }]);
  });

  test("fails with what to do when an outage ends the search, and stores nothing", { timeout: 60_000 }, async () => {
    const { prepare, proxy, readStored } = await setUp();
    proxy.intercept = ({ method }) => (method === "eth_chainId" ? undefined : { status: 503 });
    await expect(prepare()).rejects.toThrow(
      "Gnosis Chiado: the search for the block where registry v1 was deployed failed. Start again when an RPC endpoint answers, or set START_BLOCK_10200.",
    );
    expect(await readStored()).toEqual([]);
  });
});
