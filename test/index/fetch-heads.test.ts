import { createClient, http } from "viem";
import { expect, test } from "vitest";
import { HeadFetcher } from "../../indexer/fetch-heads.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { createChain } from "../support/setup.ts";

const createFetcher = (chainId: number, rpcUrls: string[]) => {
  const chain = { chainId, name: String(chainId), rpcUrls, wsUrl: null, v1: null, v2: null };
  return new HeadFetcher({ chains: [chain], pollingIntervalMs: 1000 });
};

test("fetch() returns the newest block of any endpoint, and ignores those that fail", async () => {
  const chain = await createChain(10);
  const [stuck, failing, healthy] = [
    await startRpcProxy(chain.url),
    await startRpcProxy(chain.url),
    await startRpcProxy(chain.url),
  ];
  const node = createClient({ transport: http(chain.url) });
  const old = await node.request({ method: "eth_getBlockByNumber", params: ["latest", false] });
  stuck.intercept = ({ method }) => (method === "eth_getBlockByNumber" ? { result: old } : undefined);
  failing.intercept = () => ({ status: 500 });
  const chainIds: string[] = [];
  healthy.intercept = ({ method }) => void (method === "eth_chainId" && chainIds.push(method));
  await chain.client.mine({ blocks: 3 });
  const newest = await chain.client.getBlock();

  const fetcher = createFetcher(10, [stuck.url, failing.url, healthy.url]);
  const { number, timestamp } = await fetcher.fetch(10);
  expect({ number, timestamp }).toEqual({ number: newest.number, timestamp: newest.timestamp });
  await fetcher.fetchAll();
  expect(chainIds, "an endpoint verifies its chain id once").toHaveLength(1);
});

test("fetch() throws if no endpoint answers, and then recovers", async () => {
  const chain = await createChain(10);
  const proxy = await startRpcProxy(chain.url);
  proxy.intercept = () => ({ status: 500 });
  const fetcher = createFetcher(10, [proxy.url]);
  await expect(fetcher.fetch(10)).rejects.toThrow();
  await expect(fetcher.fetchAll()).rejects.toThrow();
  proxy.intercept = () => undefined;
  expect((await fetcher.fetch(10)).number).toBe(await chain.client.getBlockNumber());
});
