import pg from "pg";
import { type Address, createClient, type Hex, http, zeroAddress, zeroHash } from "viem";
import { encodeV1, encodeV2 } from "../../local/calls.ts";
import { type LocalChain, startLocalChain } from "../../local/chain.ts";
import { compileContracts } from "../../local/compile-contracts.ts";
import { networks } from "../../registry/networks.ts";
import { FRESH_FOR_A_DAY, startTestApi } from "./api.ts";
import { launchIndexer } from "./indexer.ts";
import { dialects, simulateProvider } from "./provider.ts";
import { Random } from "./random.ts";
import { ComparedChain } from "./random-chain.ts";
import { launchHeadSocket, launchRpcProxy, type RpcRequest, startRpcProxy } from "./rpc-proxy.ts";
import { createDatabase, launchChain, startIndexer, waitUntilIndexed } from "./setup.ts";
import { buildTransaction, type Transaction, type World } from "./world.ts";

// Chains behind endpoints that tests control.

/** Compares a tenth of the checks: the lists, which are compared in full, show every row. */
const compareFewer = (subject: ComparedChain): ComparedChain => {
  subject.questions = subject.questions.filter((_, index) => index % 10 === 0);
  return subject;
};

/** Creates a chain with random blocks, for comparisons during faults. test/index/differential.test.ts compares all. */
export const createRandomChain = async (chainId: number, seed: number, blocks = 0): Promise<ComparedChain> => {
  const subject = compareFewer(await ComparedChain.create(chainId, new Random(seed)));
  await subject.mineRandomBlocks(blocks);
  return subject;
};

/**
 * Launches a chain with random blocks, indexed over an RPC proxy that tests can make fail, and over a WebSocket if wanted.
 * The caller stops it.
 */
export const launchIndexedSubject = async (seed: number, blocks: number, { overWebSocket = false } = {}) => {
  const subject = compareFewer(await ComparedChain.launch(8453, new Random(seed)));
  await subject.mineRandomBlocks(blocks);
  const { local } = subject;
  const proxy = await launchRpcProxy(local.url);
  const databaseUrl = await createDatabase();
  const database = new pg.Client(databaseUrl);
  await database.connect();
  const heads = overWebSocket ? await launchHeadSocket(local.url) : null;
  const env = heads ? { [`PONDER_WS_URL_${local.chainId}`]: heads.url } : {};
  const indexer = await launchIndexer({ databaseUrl, chains: [{ chainId: local.chainId, url: proxy.url }], env });
  await waitUntilIndexed(database, local);
  return {
    subject,
    proxy,
    databaseUrl,
    database,
    indexer,
    heads,
    stop: async () => {
      await indexer.stop();
      await database.end();
      heads?.stop();
      proxy.stop();
      await local.stop();
    },
  };
};

/** Builds two delegations and a revocation by a contract wallet. Only the registry's state shows who was revoked. */
export const buildContractRevocation = (world: World): Transaction => {
  const safe = world.wallets.find(({ isContract }) => isContract);
  const [friend, guest] = world.wallets.map(({ address }) => address);
  if (!safe || !friend || !guest) throw new Error("The world lacks wallets.");
  const calls = [
    encodeV1("delegateForAll", [friend, true]),
    encodeV1("delegateForAll", [guest, true]),
    encodeV1("revokeDelegate", [guest]),
  ];
  return buildTransaction(
    world,
    safe,
    calls.map((data) => ({ target: world.v1, data })),
  );
};

/** Reads the newest block as raw JSON-RPC. */
export const readNewestBlock = async (url: string): Promise<object> => {
  const client = createClient({ transport: http(url) });
  const block = await client.request({ method: "eth_getBlockByNumber", params: ["latest", true] });
  if (!block) throw new Error("The chain has no block.");
  return block;
};

/** Starts an API over an indexer whose backfill of chain 8453 waits for logs until release() is called. */
export const startHeldBackfill = async () => {
  const subject = await createRandomChain(8453, 3, 35);
  const rpc = await startRpcProxy(subject.local.url);
  let isHeld = true;
  rpc.intercept = ({ method }) => (isHeld && method === "eth_getLogs" ? { status: 503 } : undefined);
  const databaseUrl = await createDatabase();
  await startIndexer({ databaseUrl, chains: [{ chainId: 8453, url: rpc.url }] });
  const api = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const release = () => {
    isHeld = false;
  };
  return { databaseUrl, api, release };
};

/** A contract that emits a log without topics. */
const LOGGER: Address = "0x00000000000000000000000000000000000010c5";
const LOGGER_CODE = "0x60006000a000";

/** Blocks that are mined one by one: Ponder cannot follow blocks that are mined at once. */
const NEWEST_BLOCKS = 70;

/** The logs of a block: of a registry, of another contract, or none. */
type Logs = "registry" | "other" | "none";

type Options = {
  chainId: number;
  /** Time between blocks, by their timestamps. */
  blockMs: number;
  endpoints?: number;
  hasWebSocket?: boolean;
  /** Old blocks, and the largest range of them that an endpoint accepts. */
  history?: { blocks: number; range: number };
};

/** Launches a chain of some blocks, with one log of a registry in each of the given ones. The caller stops it. */
export const launchChainWithLogs = async (chainId: number, blocks: number, logBlocks: readonly number[]) => {
  const chain = await launchChain(chainId);
  const { client } = chain;
  for (const block of logBlocks) {
    const missing = block - Number(await client.getBlockNumber()) - 1;
    if (missing > 0) await client.mine({ blocks: missing });
    await sendDelegation(chain, registryOf(chainId));
    await client.mine({ blocks: 1 });
  }
  await client.mine({ blocks: blocks - Number(await client.getBlockNumber()) });
  return chain;
};

const registryOf = (chainId: number) => networks.get(chainId)?.v2?.address ?? zeroAddress;

/** Sends a change of the delegation from the first account to the second one, in the next block. */
const sendDelegation = async ({ client, accounts }: LocalChain, to: Address): Promise<Hex> => {
  const [account = zeroAddress, delegate = zeroAddress] = accounts;
  const isActive = (await client.getTransactionCount({ address: account })) % 2 === 0;
  const data = encodeV2("delegateAll", [delegate, zeroHash, isActive]);
  return client.sendTransaction({ account, chain: null, to, data, gas: 300_000n, gasPrice: 0n });
};

/** Launches a chain whose endpoints count requests. The caller stops it. */
export const launchCountedChain = async ({ chainId, blockMs, endpoints = 1, hasWebSocket, history }: Options) => {
  const chain = await startLocalChain(chainId, await compileContracts(), { startsAt: new Date(0) });
  await chain.client.setCode({ address: LOGGER, bytecode: LOGGER_CODE });
  if (history) await chain.client.mine({ blocks: history.blocks });
  const newest = Math.floor(Date.now() / blockMs) * blockMs;
  for (let block = 1 - NEWEST_BLOCKS; block <= 0; block++) await mineBlock(chain, "other", newest + block * blockMs);

  const proxies = await Promise.all(Array.from({ length: endpoints }, () => launchRpcProxy(chain.url)));
  if (history) for (const proxy of proxies) proxy.intercept = simulateHistory(chain.url, history);
  const heads = hasWebSocket ? await launchHeadSocket(chain.url) : null;
  return {
    chainId,
    chain,
    url: proxies.map(({ url }) => url).join(","),
    wsUrl: heads?.url,
    /** Returns the requests since the last call. */
    takeRequests: () => proxies.flatMap(({ seen }) => seen.splice(0)),
    mine: (logs: Logs, time = Date.now()) => mineBlock(chain, logs, time),
    stop: async () => {
      heads?.stop();
      for (const proxy of proxies) proxy.stop();
      await chain.stop();
    },
  };
};

/** Accepts ranges up to a limit. The old blocks have no logs, which Hardhat would take long to find out. */
const simulateHistory = (url: string, { blocks, range }: { blocks: number; range: number }) =>
  simulateProvider(url, {
    dialect: dialects.besu,
    maxBlocks: range,
    interrupt: ({ method, params }) => {
      if (method !== "eth_getLogs") return undefined;
      const { fromBlock, toBlock } = params[0] as { fromBlock?: string; toBlock?: string };
      const [from, to] = [Number(fromBlock), Number(toBlock)];
      return to < blocks && to - from < range ? { result: [] } : undefined;
    },
  });

const mineBlock = async (chain: LocalChain, logs: Logs, time: number): Promise<void> => {
  const { client, chainId } = chain;
  if (logs !== "none") await sendDelegation(chain, logs === "other" ? LOGGER : registryOf(chainId));
  const { timestamp } = await client.getBlock();
  const seconds = BigInt(Math.floor(time / 1000));
  if (seconds > timestamp) await client.setNextBlockTimestamp({ timestamp: seconds });
  await client.mine({ blocks: 1 });
};

export const countMethods = (requests: readonly RpcRequest[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { method } of requests) counts[method] = (counts[method] ?? 0) + 1;
  return counts;
};
