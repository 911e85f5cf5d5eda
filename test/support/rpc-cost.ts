import { type Address, zeroAddress, zeroHash } from "viem";
import { encodeV2 } from "../../local/calls.ts";
import { type LocalChain, startLocalChain } from "../../local/chain.ts";
import { compileContracts } from "../../local/compile-contracts.ts";
import { networks } from "../../registry/networks.ts";
import { launchHeadSocket } from "./head-socket.ts";
import { simulateProvider } from "./provider.ts";
import { dialects } from "./provider-dialects.ts";
import { launchRpcProxy, type RpcRequest } from "./rpc-proxy.ts";

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

const mineBlock = async ({ chainId, client, accounts }: LocalChain, logs: Logs, time: number): Promise<void> => {
  const registry = networks.get(chainId)?.v2?.address;
  const [account = zeroAddress, delegate = zeroAddress] = accounts;
  const { number, timestamp } = await client.getBlock();
  if (logs !== "none" && registry) {
    const to = logs === "registry" ? registry : LOGGER;
    const data = encodeV2("delegateAll", [delegate, zeroHash, number % 2n === 0n]);
    await client.sendTransaction({ account, chain: null, to, data, gas: 300_000n, gasPrice: 0n });
  }
  const seconds = BigInt(Math.floor(time / 1000));
  if (seconds > timestamp) await client.setNextBlockTimestamp({ timestamp: seconds });
  await client.mine({ blocks: 1 });
};

export const countMethods = (requests: readonly RpcRequest[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { method } of requests) counts[method] = (counts[method] ?? 0) + 1;
  return counts;
};
