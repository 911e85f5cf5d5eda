import { inspect } from "node:util";
import { type Address, createClient, type Hash, type Log, numberToHex, toEventSelector, zeroHash } from "viem";
import { getChainId } from "viem/actions";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { createChainTransport } from "../../indexer/chain-transport.ts";
import { networks } from "../../registry/networks.ts";
import { encodeV1, encodeV2 } from "../../sandbox/calls.ts";
import type { LocalChain } from "../../sandbox/chain.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { askNode } from "../support/rpc-relay.ts";
import { createChain, launchChain } from "../support/setup.ts";

type Filter = { topics?: unknown; blockHash?: unknown };

const UNKNOWN = `0x${"ab".repeat(32)}` as const;

/** Long enough between retries for other requests, and no longer. */
const RETRY_MS = 10;
const clientOf = (...urls: string[]) => createChainTransport(8453, urls, [], RETRY_MS)({ retryCount: 0 });

let chain: LocalChain;

beforeAll(async () => {
  chain = await launchChain(8453);
});

afterAll(() => chain.stop());

/** Two ways to the same chain. */
const createEndpoints = async () => {
  const [first, second] = [await startRpcProxy(chain.url), await startRpcProxy(chain.url)];
  const { request } = clientOf(first.url, second.url);
  return { first, second, request };
};

describe("createChainTransport() with several endpoints", () => {
  test("uses the first one that answers, and passes over one that failed", async () => {
    const { first, second, request } = await createEndpoints();
    first.intercept = () => ({ status: 503 });
    expect(await request({ method: "eth_blockNumber" })).toBe("0x0");
    expect(await request({ method: "eth_blockNumber" })).toBe("0x0");
    expect(first.seen).toHaveLength(1);
    expect(second.seen.filter(({ method }) => method === "eth_blockNumber")).toHaveLength(2);
  });

  test("asks one that failed again when all others fail", async () => {
    const { first, second, request } = await createEndpoints();
    first.intercept = () => ({ status: 503 });
    await request({ method: "eth_blockNumber" });
    first.intercept = () => undefined;
    second.intercept = () => ({ status: 503 });
    expect(await request({ method: "eth_blockNumber" })).toBe("0x0");
  });

  test("throws the first endpoint's error when all fail: Ponder reads a provider's limits from it", async () => {
    const { first, second, request } = await createEndpoints();
    await request({ method: "eth_blockNumber" });
    first.intercept = () => ({ error: { code: -32005, message: "query returned more than 10000 results" } });
    second.intercept = () => ({ status: 500 });
    await expect(request({ method: "eth_getLogs", params: [{ fromBlock: "0x0" }] })).rejects.toThrow(
      /more than 10000 results/,
    );
  });

  test("never uses an endpoint that is on another chain", async () => {
    const wrong = await createChain(10);
    await wrong.client.mine({ blocks: 3 });
    const { request } = clientOf(wrong.url, chain.url);
    expect(await request({ method: "eth_blockNumber" })).toBe("0x0");

    const { request: onlyWrong } = clientOf(wrong.url);
    await expect(onlyWrong({ method: "eth_blockNumber" })).rejects.toThrow(/is on chain 10, not on chain 8453/);
  });
});

describe("createChainTransport() over an endpoint that fails for a moment", () => {
  test("asks again which chain it is on after any failure", async () => {
    const proxy = await startRpcProxy(chain.url);
    const { request } = clientOf(proxy.url);
    for (const failure of [
      { error: { code: -32005, message: "Too many requests" } },
      { result: null },
      { status: 200 },
      { status: 429 },
    ]) {
      proxy.intercept = ({ method }) => (method === "eth_chainId" ? failure : undefined);
      await expect(request({ method: "eth_blockNumber" })).rejects.not.toThrow(/is on chain/);
      proxy.intercept = () => undefined;
      expect(await request({ method: "eth_blockNumber" })).toBe("0x0");
      // Only an endpoint that was unreachable is asked again: make it so for the next kind of failure.
      proxy.intercept = () => ({ status: 503 });
      await expect(request({ method: "eth_blockNumber" })).rejects.toThrow();
    }
  });

  test("takes an empty response for a failure, and asks the next endpoint", async () => {
    const { first, request } = await createEndpoints();
    await request({ method: "eth_blockNumber" });
    first.intercept = () => ({ status: 200 });
    expect(await request({ method: "eth_blockNumber" })).toBe("0x0");
  });

  test("retries a block number that the node does not know yet", async () => {
    const proxy = await startRpcProxy(chain.url);
    const { request } = clientOf(proxy.url);
    let asked = 0;
    proxy.intercept = ({ method }) => (method === "eth_getBlockByNumber" && ++asked < 3 ? { result: null } : undefined);
    expect(await request({ method: "eth_getBlockByNumber", params: ["0x0", false] })).toMatchObject({ number: "0x0" });
  });
});

describe("createChainTransport() when a node leaves out some of the registries' logs", () => {
  /** A chain with four logs of one kind in its newest block, over endpoints that can leave some out. */
  const createLogs = async (endpoints = 1) => {
    const chain = await createChain(8453);
    const { v1, v2 } = networks.get(8453) ?? {};
    const [vault, ...others] = chain.accounts;
    if (!v1 || !v2 || !vault) throw new Error("The chain lacks registries or wallets.");
    for (const delegate of others.slice(0, 4)) {
      const data = encodeV1("delegateForAll", [delegate, true]);
      await chain.client.sendTransaction({ account: vault, chain: null, to: v1.address, data, gasPrice: 0n });
    }
    await chain.client.mine({ blocks: 1 });

    const proxies = await Promise.all(Array.from({ length: endpoints }, () => startRpcProxy(chain.url)));
    const [proxy] = proxies as [(typeof proxies)[number]];
    const urls = proxies.map(({ url }) => url);
    const transport = createChainTransport(8453, urls, [v1.address, v2.address], RETRY_MS)({ retryCount: 0 });
    const request: (body: { method: string; params: unknown[] }) => Promise<unknown> = transport.request;
    const leaveOut = (keep: number, times: number, isMeant = (filter: Filter) => filter !== undefined) => {
      let told = 0;
      proxy.intercept = async ({ method, params }) => {
        if (method !== "eth_getLogs" || !isMeant(params[0] as Filter) || ++told > times) return undefined;
        const answer = await askNode(chain.url, { method, params });
        return "result" in answer && Array.isArray(answer.result) ? { result: answer.result.slice(0, keep) } : answer;
      };
    };
    const block = await chain.client.getBlock();
    const topics = [toEventSelector("DelegateForAll(address,address,bool)")];
    const range = { address: v1.address, topics, fromBlock: "0x0", toBlock: "0x1" };
    const askRange = () => request({ method: "eth_getLogs", params: [range] });
    const askBlock = async () => {
      await request({ method: "eth_getBlockByNumber", params: ["latest", true] });
      return request({ method: "eth_getLogs", params: [{ blockHash: block.hash }] });
    };
    return { proxy, askRange, askBlock, leaveOut };
  };

  test.for([0, 3])("gets all four, of a range and of a block, after an answer with %i of them", async (keep) => {
    const { askRange, askBlock, leaveOut } = await createLogs();
    for (const ask of [askRange, askBlock]) {
      leaveOut(keep, 1);
      expect(await ask()).toHaveLength(4);
    }
  });

  test("fails while a block's logs are fewer than by its number, and takes those of a range from either answer", async () => {
    const { askRange, askBlock, leaveOut } = await createLogs();
    leaveOut(3, 100, ({ topics, blockHash }) => topics !== undefined || blockHash !== undefined);
    await expect(askBlock()).rejects.toThrow(/No node has all logs of block/);
    expect(await askRange()).toHaveLength(4);
  });

  test("takes logs of a range that one of two endpoints never has from the other, and logs a warning once", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    onTestFinished(() => warn.mockRestore());
    const { proxy, askRange, leaveOut } = await createLogs(2);
    leaveOut(0, 100);
    expect(await askRange()).toHaveLength(4);
    expect(await askRange()).toHaveLength(4);
    expect(warn.mock.calls).toEqual([[expect.stringContaining(`${proxy.url} lacks logs`)]]);
  });

  test("does not accept an empty range from a node that has not reached its last block", async () => {
    const { proxy, askRange } = await createLogs();
    proxy.intercept = ({ method }) => {
      if (method === "eth_blockNumber") return { result: "0x0" };
      return method === "eth_getLogs" ? { result: [] } : undefined;
    };
    await expect(askRange()).rejects.toThrow(/is at block 0, and cannot tell the logs up to block 1/);
    proxy.intercept = () => undefined;
    expect(await askRange()).toHaveLength(4);
  });
});

describe("createChainTransport() asked for a block that no node has", () => {
  test("fails within seconds, with an error that Ponder does not retry", async () => {
    const { request } = createChainTransport(8453, [chain.url])({ retryCount: 0 });
    const startedAt = Date.now();
    await expect(request({ method: "eth_getLogs", params: [{ blockHash: UNKNOWN }] })).rejects.toMatchObject({
      message: expect.stringContaining("revert"),
      code: expect.any(Number),
    });
    expect(Date.now() - startedAt).toBeLessThan(5000);
  });

  test("retries while a node is behind", async () => {
    const { first, second, request } = await createEndpoints();
    let asked = 0;
    const behind = () => (++asked <= 4 ? { error: { code: -32000, message: "unknown block" } } : { result: [] });
    await request({ method: "eth_blockNumber" });
    await request({ method: "eth_getBlockByHash", params: [UNKNOWN, false] });
    first.intercept = behind;
    second.intercept = behind;
    expect(await request({ method: "eth_getLogs", params: [{ blockHash: UNKNOWN }] })).toEqual([]);
  });

  test("takes the block from the node that has it", async () => {
    const { first, request } = await createEndpoints();
    const { hash } = await chain.client.getBlock();
    await request({ method: "eth_blockNumber" });
    first.intercept = ({ method }) => (method === "eth_getBlockByHash" ? { result: null } : undefined);
    expect(await request({ method: "eth_getBlockByHash", params: [hash, false] })).toMatchObject({ hash });
  });

  test.each([
    "unknown block",
    "header not found",
    "block not found",
    "blockHash cannot be found",
    "Block with hash 0xab not found",
    "hash 0xab is not currently canonical",
    "requested resource not found",
  ])('recognises "%s"', async (message) => {
    const { first, second, request } = await createEndpoints();
    await request({ method: "eth_blockNumber" });
    first.intercept = () => ({ error: { code: -32000, message } });
    second.intercept = () => ({ error: { code: -32000, message } });
    await expect(request({ method: "eth_getLogs", params: [{ blockHash: UNKNOWN }] })).rejects.toThrow(/revert/);
  });
});

describe("createChainTransport() asked for the logs of a block", () => {
  const FULLER_BLOOM = `0x${"f".repeat(511)}0`;

  /** The hash of a block with two logs. */
  const mineLogs = async () => {
    const { client, accounts } = chain;
    const registry = networks.get(8453)?.v2?.address;
    const [vault, delegate, otherVault, otherDelegate] = accounts;
    if (!registry || !vault || !delegate || !otherVault || !otherDelegate) throw new Error("The chain lacks wallets.");
    const delegateTo = (account: Address, to: Address) =>
      client.sendTransaction({
        account,
        chain: null,
        to: registry,
        data: encodeV2("delegateAll", [to, zeroHash, true]),
        gas: 300_000n,
      });
    await delegateTo(vault, delegate);
    await delegateTo(otherVault, otherDelegate);
    await client.mine({ blocks: 1 });
    return (await client.getBlock()).hash;
  };
  /** A log as nodes tell it. */
  const tell = ({ address, topics, blockHash, blockNumber, logIndex }: Log<bigint, number, false>) => ({
    address,
    topics,
    blockHash,
    blockNumber: numberToHex(blockNumber),
    logIndex: numberToHex(logIndex),
  });
  const askForLogs = (request: ReturnType<typeof clientOf>["request"], hash: Hash) =>
    request({ method: "eth_getLogs", params: [{ blockHash: hash }] });

  test("takes them from the node that has all", async () => {
    const { first, request } = await createEndpoints();
    const hash = await mineLogs();
    first.intercept = ({ method }) => (method === "eth_getLogs" ? { result: [] } : undefined);
    expect(await askForLogs(request, hash)).toHaveLength(2);
  });

  test("accepts fewer than the bloom filter says only if the receipts have no more either", async () => {
    const { first, second, request } = await createEndpoints();
    const hash = await mineLogs();
    // This node has no such method; others do.
    const logs = await chain.client.getLogs({ blockHash: hash });
    const withReceipts =
      (answers: Record<string, unknown>) =>
      ({ method }: { method: string }) => {
        if (method === "eth_getBlockReceipts") return { result: logs.map((log) => ({ logs: [tell(log)] })) };
        return method in answers ? { result: answers[method] } : undefined;
      };
    const withholdSome = withReceipts({ eth_getLogs: logs.slice(0, 1).map(tell) });
    for (const endpoint of [first, second]) endpoint.intercept = withholdSome;
    await expect(askForLogs(request, hash)).rejects.toThrow(/No node has all logs of block/);

    // As on chains whose filters have more in them than logs.
    const fill = withReceipts({ eth_getBlockByHash: { hash, logsBloom: FULLER_BLOOM } });
    for (const endpoint of [first, second]) endpoint.intercept = fill;
    expect(await askForLogs(request, hash)).toHaveLength(2);
  });

  test("accepts the logs as they are where bloom filters say nothing", async () => {
    const { first, second, request } = await createEndpoints();
    const hash = await mineLogs();
    for (const logsBloom of [`0x${"0".repeat(512)}`, `0x${"f".repeat(512)}`]) {
      for (const endpoint of [first, second]) {
        endpoint.intercept = ({ method }) => {
          if (method === "eth_getBlockByHash") return { result: { hash, logsBloom } };
          return method === "eth_getBlockReceipts" ? { status: 500 } : undefined;
        };
      }
      expect(await askForLogs(request, hash)).toHaveLength(2);
    }
  });
});

test('a node\'s "method not found" is not taken for "block not found"', async () => {
  const { first, second, request } = await createEndpoints();
  await request({ method: "eth_blockNumber" });
  const without = () => ({ error: { code: -32601, message: "the method eth_getBlockReceipts was not found" } });
  first.intercept = without;
  second.intercept = without;
  const asked = request({ method: "eth_getBlockReceipts", params: [UNKNOWN] });
  await expect(asked).rejects.toMatchObject({ code: -32601 });
});

test("errors contain the host of an endpoint's URL, and nothing else of it", async () => {
  const proxy = await startRpcProxy(chain.url);
  const { host } = new URL(proxy.url);
  const { request } = clientOf(`http://user:pa55@${host}/v2/s3cret?key=s3cret`);
  for (const failure of [{ status: 503 }, { error: { code: -32000, message: "no" } }]) {
    proxy.intercept = () => failure;
    const error: unknown = await request({ method: "eth_blockNumber" }).catch((error: unknown) => error);
    const text = inspect(error, { depth: 10, showHidden: true });
    expect(text).toContain(host);
    expect(text).not.toMatch(/s3cret|pa55/);
  }
});

test("a client over the transport reads the chain", async () => {
  const client = createClient({ transport: createChainTransport(8453, [chain.url]), cacheTime: 0 });
  expect(await getChainId(client)).toBe(8453);
});
