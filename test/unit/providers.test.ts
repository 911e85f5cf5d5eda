import { type Address, type Hex, numberToHex } from "viem";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ChainRpc } from "../../indexer/rpc/chain-rpc.ts";
import { encodeV2 } from "../../local/calls.ts";
import type { LocalChain } from "../../local/chain.ts";
import { networks } from "../../registry/networks.ts";
import { countMethods } from "../support/indexed-chain.ts";
import { type Behaviour, type Dialect, dialects, simulateProvider } from "../support/provider.ts";
import type { RpcResponse } from "../support/rpc-proxy.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { launchChain } from "../support/setup.ts";

// The transport in front of simulated providers.

const CHAIN = 8453;
const BLOCKS = 30_000;
/** The blocks with a log of the registry: the first and last of every range, and some between. */
const LOG_BLOCKS = [1, 2, 9, 10, 11, 499, 500, 501, 1999, 2000, 2001, 9_999, 10_000, 10_001, 29_999];

const registries = [networks.get(CHAIN)?.v1?.address, networks.get(CHAIN)?.v2?.address].filter((one) => one != null);

let chain: LocalChain;
beforeAll(async () => {
  chain = await launchChain(CHAIN);
  const [vault, delegate] = chain.accounts as [Address, Address];
  const to = networks.get(CHAIN)?.v2?.address as Address;
  let isActive = false;
  for (const block of LOG_BLOCKS) {
    const newest = Number(await chain.client.getBlockNumber());
    if (block - newest > 1) await chain.client.mine({ blocks: block - newest - 1 });
    isActive = !isActive;
    const data = encodeV2("delegateAll", [delegate, `0x${"0".repeat(64)}` as Hex, isActive]);
    await chain.client.sendTransaction({ account: vault, chain: null, to, data, gas: 300_000n, gasPrice: 0n });
    await chain.client.mine({ blocks: 1 });
  }
  await chain.client.mine({ blocks: BLOCKS - Number(await chain.client.getBlockNumber()) });
});
afterAll(() => chain?.stop());

const connect = async (behaviour: Behaviour) => {
  const proxy = await startRpcProxy(chain.url);
  proxy.intercept = simulateProvider(chain.url, behaviour);
  const rpc = new ChainRpc({ chainId: CHAIN, urls: [proxy.url], registries, unknownBlockWaitMs: 10 });
  const { request } = rpc.transport({ retryCount: 0 });
  const countRequests = (method: string) => proxy.seen.filter((seen) => seen.method === method).length;
  return { proxy, request: request as (body: { method: string; params?: unknown }) => Promise<unknown>, countRequests };
};

const askRange = async (request: (body: { method: string; params: unknown[] }) => Promise<unknown>, to: number) => {
  const filter = { address: registries, fromBlock: "0x0", toBlock: numberToHex(to) };
  const logs = (await request({ method: "eth_getLogs", params: [filter] })) as { blockNumber: Hex }[];
  return logs.map(({ blockNumber }) => Number(blockNumber));
};

const withField = <Field extends keyof Dialect>(field: Field) =>
  Object.entries(dialects).flatMap(([name, dialect]: [string, Dialect]) => {
    const value = dialect[field];
    return value === undefined ? [] : [{ name, dialect, value }];
  });

describe("a request for the logs of a range", () => {
  const limited = withField("range").filter(({ value }) => value.blocks < BLOCKS / 2);

  test.for(limited)(
    "is split if it has more blocks than the provider allows: $name",
    async ({ dialect, value: { blocks } }) => {
      const { request, countRequests } = await connect({ dialect });
      const to = Math.min(BLOCKS, blocks * 40) - 1;
      expect(await askRange(request, to)).toEqual(LOG_BLOCKS.filter((block) => block <= to));
      // Twice the range, in parts of about half the limit or more, and a refusal for each halving and each try of more.
      expect(countRequests("eth_getLogs")).toBeLessThan(2 * Math.ceil(to / (blocks / 2)) + 24);
    },
  );

  test.for([10, 10_000])("of %i costs two requests, however many kinds of events are asked for", async (blocks) => {
    const { proxy, request } = await connect({});
    const ranges = Math.min(100, BLOCKS / blocks);
    for (const address of registries) {
      for (let from = 0; from < ranges * blocks; from += blocks) {
        const filter = { address, fromBlock: numberToHex(from), toBlock: numberToHex(from + blocks - 1) };
        await request({ method: "eth_getLogs", params: [filter] });
      }
    }
    const { eth_chainId, eth_getLogs } = countMethods(proxy.seen);
    expect({ eth_chainId, eth_getLogs }).toEqual({ eth_chainId: 1, eth_getLogs: 2 * ranges });
  });

  test("is not refused again: the limit is remembered", async () => {
    const { request, countRequests } = await connect({ dialect: dialects.besu, maxBlocks: 100 });
    await askRange(request, 1000);
    const before = countRequests("eth_getLogs");
    await askRange(request, 500);
    expect(countRequests("eth_getLogs") - before).toBeLessThanOrEqual(2 * Math.ceil(501 / 50) + 2);
  });

  test.for(withField("results"))("is split when it has too many logs: $name", async ({ dialect }) => {
    const { request } = await connect({ dialect, maxLogs: 3, maxBlocks: BLOCKS });
    expect(await askRange(request, BLOCKS)).toEqual(LOG_BLOCKS);
  });

  test.for(withField("size"))("is split when the response is too large: $name", async ({ dialect, value }) => {
    const small = { ...dialect, size: { ...value, bytes: 2_000 } };
    const { request } = await connect({ dialect: small, maxBlocks: BLOCKS });
    expect(await askRange(request, BLOCKS)).toEqual(LOG_BLOCKS);
  });
});

describe("a rate limit", () => {
  const refusals = (["rateLimits", "quotas"] as const).flatMap((field) =>
    withField(field).flatMap(({ name, value }) => value.map((refusal, index) => ({ name, field, index, refusal }))),
  );

  test.for(refusals)("is one to Ponder: $field $index of $name", async ({ refusal }) => {
    const { request } = await connect({ interrupt: ({ method }) => (method === "eth_call" ? refusal : undefined) });
    await expect(request({ method: "eth_call", params: [{ to: registries[0] }] })).rejects.toMatchObject({ code: 429 });
  });

  test("delays a range, and loses none of its logs", async () => {
    let count = 0;
    const refuse = (): RpcResponse | undefined =>
      ++count % 4 === 0 ? { status: 429, headers: { "retry-after": "0.05" } } : undefined;
    const { request } = await connect({ dialect: dialects.besu, interrupt: refuse });
    expect(await askRange(request, BLOCKS)).toEqual(LOG_BLOCKS);
  });

  test("of one endpoint sends the requests to the other", async () => {
    const [limited, other] = [await startRpcProxy(chain.url), await startRpcProxy(chain.url)];
    limited.intercept = () => ({ status: 429 });
    const rpc = new ChainRpc({ chainId: CHAIN, urls: [limited.url, other.url] });
    const { request } = rpc.transport({ retryCount: 0 });
    for (let times = 0; times < 5; times++) expect(await request({ method: "eth_blockNumber" })).toBeTypeOf("string");
    expect(limited.seen).toHaveLength(1);
  });
});

test.for(withField("unknownBlock"))("an unknown block is an orphan: $name", async ({ value }) => {
  const { request } = await connect({ interrupt: ({ method }) => (method === "eth_getLogs" ? value : undefined) });
  const blockHash = `0x${"ab".repeat(32)}`;
  await expect(request({ method: "eth_getLogs", params: [{ blockHash }] })).rejects.toThrow(/revert/);
});
