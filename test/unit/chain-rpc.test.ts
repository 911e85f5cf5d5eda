import { inspect } from "node:util";
import { type Hex, numberToHex, toEventSelector, zeroAddress, zeroHash } from "viem";
import { getChainId } from "viem/actions";
import { test as base, describe, expect, onTestFinished, vi } from "vitest";
import { ChainRpc, createChainClient } from "../../indexer/rpc/chain-rpc.ts";
import { encodeV1, encodeV2 } from "../../local/calls.ts";
import type { LocalChain } from "../../local/chain.ts";
import { networks } from "../../registry/networks.ts";
import { launchCountedChain } from "../support/indexed-chain.ts";
import { askNode, launchRpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { createChain, launchChain } from "../support/setup.ts";

type Filter = { topics?: unknown; blockHash?: unknown };

const REGISTRY = networks.get(8453)?.v2?.address ?? zeroAddress;
const UNKNOWN = `0x${"ab".repeat(32)}` as const;

/** Pause between retries, long enough for other requests. */
const RETRY_MS = 10;
const clientOf = (...urls: string[]) =>
  new ChainRpc({ chainId: 8453, urls, unknownBlockWaitMs: RETRY_MS }).transport({ retryCount: 0 });

/** An endpoint of a chain, until the test is over. */
const startEndpoint = async ({ url }: LocalChain, onCleanup: (stop: () => void) => void) => {
  const proxy = await launchRpcProxy(url);
  onCleanup(proxy.stop);
  return proxy;
};

/** Tests with two endpoints of one chain, and a client of both. */
const test = base
  .extend("chain", { scope: "file" }, async ({}, { onCleanup }) => {
    const chain = await launchChain(8453);
    onCleanup(() => chain.stop());
    return chain;
  })
  .extend("first", ({ chain }, { onCleanup }) => startEndpoint(chain, onCleanup))
  .extend("second", ({ chain }, { onCleanup }) => startEndpoint(chain, onCleanup))
  .extend("request", ({ first, second }) => clientOf(first.url, second.url).request);

const HEAD = { method: "eth_blockNumber" } as const;

describe("ChainRpc with several endpoints", () => {
  test.for([
    ["fails", { status: 503 }],
    ["limits requests", { status: 429 }],
  ] as const)("skips the first one while it %s", async ([, failure], { first, second, request }) => {
    first.intercept = () => failure;
    for (let times = 0; times < 3; times++) expect(await request(HEAD)).toBe("0x0");
    expect(first.seen).toHaveLength(1);
    expect(second.seen.filter(({ method }) => method === HEAD.method)).toHaveLength(3);

    first.intercept = () => undefined;
    second.intercept = () => ({ status: 503 });
    expect(await request(HEAD), "the others fail").toBe("0x0");
  });

  test.for([
    ["a response is empty", { status: 200 }, HEAD.method],
    ["the body of a chain id stalls for 10 s", { stalls: true }, "eth_chainId"],
  ] as const)("tries the next one when %s", { timeout: 30_000 }, async ([, answer, asked], { first, request }) => {
    first.intercept = ({ method }) => (method === asked ? answer : undefined);
    expect(await request(HEAD)).toBe("0x0");
  });

  test("throws the first endpoint's error when all fail, as Ponder reads a provider's limits from it", async ({
    first,
    second,
    request,
  }) => {
    await request(HEAD);
    first.intercept = () => ({ error: { code: -32005, message: "query returned more than 10000 results" } });
    second.intercept = () => ({ status: 500 });
    await expect(request({ method: "eth_getLogs", params: [{ fromBlock: "0x0" }] })).rejects.toThrow(
      /more than 10000 results/,
    );
  });

  test("never uses an endpoint on another chain", async ({ chain }) => {
    const wrong = await createChain(10);
    await wrong.client.mine({ blocks: 3 });
    expect(await clientOf(wrong.url, chain.url).request(HEAD)).toBe("0x0");
    await expect(clientOf(wrong.url).request(HEAD)).rejects.toThrow(/is on chain 10, not on chain 8453/);
  });
});

describe("ChainRpc over an endpoint that fails for a moment", () => {
  test("reads its chain id again after any failure", async ({ first }) => {
    const { request } = clientOf(first.url);
    for (const failure of [
      { error: { code: -32005, message: "Too many requests" } },
      { result: null },
      { status: 200 },
      { status: 429 },
    ]) {
      first.intercept = ({ method }) => (method === "eth_chainId" ? failure : undefined);
      await expect(request(HEAD)).rejects.not.toThrow(/is on chain/);
      first.intercept = () => undefined;
      expect(await request(HEAD)).toBe("0x0");
      // The transport reads the chain id again only after the endpoint was unreachable.
      first.intercept = () => ({ status: 503 });
      await expect(request(HEAD)).rejects.toThrow();
    }
  });

  test("retries a block number that the node does not have yet", async ({ first }) => {
    const { request } = clientOf(first.url);
    let asked = 0;
    first.intercept = ({ method }) => (method === "eth_getBlockByNumber" && ++asked < 3 ? { result: null } : undefined);
    expect(await request({ method: "eth_getBlockByNumber", params: ["0x0", false] })).toMatchObject({ number: "0x0" });
  });
});

test("ChainRpc repeats a request when the body of its response stalls", async ({ first }) => {
  const { request } = clientOf(first.url);
  let asked = 0;
  first.intercept = ({ method }) => (method === HEAD.method && ++asked % 50 === 20 ? { stalls: true } : undefined);
  for (let times = 0; times < 90; times++) {
    const startedAt = performance.now();
    expect(await request(HEAD)).toBe("0x0");
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  }
  expect(asked).toBe(92);
});

describe("ChainRpc when a node omits some of the registries' logs", () => {
  /** Creates a chain with four logs of one kind in its newest block, and endpoints that can omit some. */
  const createLogs = async (endpoints = 1) => {
    const { client, url, accounts } = await createChain(8453);
    const to = networks.get(8453)?.v1?.address ?? zeroAddress;
    const [account = zeroAddress, ...others] = accounts;
    for (const delegate of others.slice(0, 4)) {
      const data = encodeV1("delegateForAll", [delegate, true]);
      await client.sendTransaction({ account, chain: null, to, data, gasPrice: 0n });
    }
    await client.mine({ blocks: 1 });

    const proxies = await Promise.all(Array.from({ length: endpoints }, () => startRpcProxy(url)));
    const [proxy] = proxies as [(typeof proxies)[number]];
    const urls = proxies.map(({ url }) => url);
    const rpc = new ChainRpc({ chainId: 8453, urls, registries: [to, REGISTRY], unknownBlockWaitMs: RETRY_MS });
    const request: (body: { method: string; params: unknown[] }) => Promise<unknown> = rpc.transport({
      retryCount: 0,
    }).request;
    const leaveOut = (keep: number, times: number, isMeant = (filter: Filter) => filter !== undefined) => {
      let told = 0;
      proxy.intercept = async ({ method, params }) => {
        if (method !== "eth_getLogs" || !isMeant(params[0] as Filter) || ++told > times) return undefined;
        const answer = await askNode(url, { method, params });
        return "result" in answer && Array.isArray(answer.result) ? { result: answer.result.slice(0, keep) } : answer;
      };
    };
    const { hash } = await client.getBlock();
    const topics = [toEventSelector("DelegateForAll(address,address,bool)")];
    const range = { address: to, topics, fromBlock: "0x0", toBlock: "0x1" };
    const askRange = () => request({ method: "eth_getLogs", params: [range] });
    const askBlock = async () => {
      await request({ method: "eth_getBlockByNumber", params: ["latest", true] });
      return request({ method: "eth_getLogs", params: [{ blockHash: hash }] });
    };
    return { proxy, askRange, askBlock, leaveOut };
  };

  test.for([0, 3])("returns all four, of a range and of a block, after a response with %i of them", async (keep) => {
    const { askRange, askBlock, leaveOut } = await createLogs();
    for (const ask of [askRange, askBlock]) {
      leaveOut(keep, 1);
      expect(await ask()).toHaveLength(4);
    }
  });

  test("throws while a block has fewer logs by hash than by number, and merges both responses for a range", async () => {
    const { askRange, askBlock, leaveOut } = await createLogs();
    leaveOut(3, 100, ({ topics, blockHash }) => topics !== undefined || blockHash !== undefined);
    await expect(askBlock()).rejects.toThrow(/No node has all logs of block/);
    expect(await askRange()).toHaveLength(4);
  });

  test("takes a range's logs from the second endpoint when the first lacks them, and logs one warning", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    onTestFinished(() => warn.mockRestore());
    const { proxy, askRange, leaveOut } = await createLogs(2);
    leaveOut(0, 100);
    expect(await askRange()).toHaveLength(4);
    expect(await askRange()).toHaveLength(4);
    expect(warn.mock.calls).toEqual([[expect.stringContaining(`${proxy.url} lacks 4 logs`)]]);
  });

  test("throws for an empty range from a node that has not reached its last block", async () => {
    const { proxy, askRange } = await createLogs();
    proxy.intercept = ({ method }) => {
      if (method === "eth_blockNumber") return { result: "0x0" };
      return method === "eth_getLogs" ? { result: [] } : undefined;
    };
    await expect(askRange()).rejects.toThrow(/is at block 0, and cannot return the logs up to block 1/);
    proxy.intercept = () => undefined;
    expect(await askRange()).toHaveLength(4);
  });
});

describe("ChainRpc for a block that no node has", () => {
  test("throws after some requests, with an error that Ponder does not retry", async ({ first }) => {
    const { request } = new ChainRpc({ chainId: 8453, urls: [first.url] }).transport({ retryCount: 0 });
    await expect(request({ method: "eth_getLogs", params: [{ blockHash: UNKNOWN }] })).rejects.toMatchObject({
      message: expect.stringContaining("revert"),
      code: expect.any(Number),
    });
    expect(first.seen.length).toBeLessThan(20);
  });

  test("retries while a node is behind", async ({ first, second, request }) => {
    let asked = 0;
    const block = {
      hash: UNKNOWN,
      parentHash: UNKNOWN,
      number: "0x1",
      timestamp: "0x1",
      logsBloom: "0x0",
      transactions: [],
    };
    const behind = ({ method }: { method: string }) =>
      ++asked <= 4
        ? { error: { code: -32000, message: "unknown block" } }
        : { result: method === "eth_getBlockByHash" ? block : [] };
    await request({ method: "eth_getBlockByHash", params: [UNKNOWN, false] });
    first.intercept = behind;
    second.intercept = behind;
    expect(await request({ method: "eth_getLogs", params: [{ blockHash: UNKNOWN }] })).toEqual([]);
  });

  test("takes the block from the node that has it", async ({ chain, first, request }) => {
    const { hash } = await chain.client.getBlock();
    first.intercept = ({ method }) => (method === "eth_getBlockByHash" ? { result: null } : undefined);
    expect(await request({ method: "eth_getBlockByHash", params: [hash, false] })).toMatchObject({ hash });
  });

  test('does not mistake "method not found" for it', async ({ first, second, request }) => {
    const without = () => ({ error: { code: -32601, message: "the method eth_getBlockReceipts was not found" } });
    await request(HEAD);
    first.intercept = without;
    second.intercept = without;
    await expect(request({ method: "eth_getBlockReceipts", params: [UNKNOWN] })).rejects.toMatchObject({
      code: -32601,
    });
  });
});

describe("ChainRpc for the logs of a block", () => {
  const FULLER_BLOOM = `0x${"f".repeat(511)}0`;

  /** Mines a block with two logs. */
  const mineLogs = async (chain: LocalChain) => {
    const { client, accounts } = chain;
    for (const place of [0, 2]) {
      const [account = zeroAddress, delegate = zeroAddress] = accounts.slice(place);
      const data = encodeV2("delegateAll", [delegate, zeroHash, true]);
      await client.sendTransaction({ account, chain: null, to: REGISTRY, data, gas: 300_000n });
    }
    await client.mine({ blocks: 1 });
    const { hash } = await client.getBlock();
    const { result } = (await askNode(chain.url, { method: "eth_getLogs", params: [{ blockHash: hash }] })) as {
      result: object[];
    };
    return { hash, logs: result, ask: { method: "eth_getLogs", params: [{ blockHash: hash }] } as const };
  };

  test("returns them from the node that has all", async ({ chain, first, request }) => {
    const { ask } = await mineLogs(chain);
    first.intercept = ({ method }) => (method === "eth_getLogs" ? { result: [] } : undefined);
    expect(await request(ask)).toHaveLength(2);
  });

  test("accepts fewer than the bloom filter indicates only if the receipts have no more", async ({
    chain,
    first,
    second,
    request,
  }) => {
    const { hash, logs, ask } = await mineLogs(chain);
    // Hardhat lacks eth_getBlockReceipts; other nodes have it.
    const answerAll = (answers: Record<string, unknown>) => {
      const known: Record<string, unknown> = { eth_getBlockReceipts: logs.map((log) => ({ logs: [log] })), ...answers };
      for (const endpoint of [first, second]) {
        endpoint.intercept = ({ method }) => (method in known ? { result: known[method] } : undefined);
      }
    };
    answerAll({ eth_getLogs: logs.slice(0, 1) });
    await expect(request(ask)).rejects.toThrow(/No node has all logs of block/);
    // On some chains the filter contains more than logs.
    answerAll({ eth_getBlockByHash: { hash, logsBloom: FULLER_BLOOM } });
    expect(await request(ask)).toHaveLength(2);
  });

  test.for(["0", "f"])(
    "accepts them unverified when all bits of bloom filters are 0x%s",
    async (digit, { chain, first }) => {
      const { hash, ask } = await mineLogs(chain);
      first.intercept = ({ method }) => {
        if (method === "eth_getBlockByHash") return { result: { hash, logsBloom: `0x${digit.repeat(512)}` } };
        return method === "eth_getBlockReceipts" ? { status: 500 } : undefined;
      };
      expect(await clientOf(first.url).request(ask)).toHaveLength(2);
    },
  );
});

describe("ChainRpc for the newest block", () => {
  const connect = async (blockMs: number) => {
    const counted = await launchCountedChain({ chainId: 8453, blockMs });
    onTestFinished(counted.stop);
    const { request } = clientOf(counted.url);
    const { number, timestamp } = await counted.chain.client.getBlock();
    for (let block = number - 20n; block < number; block++) {
      await request({ method: "eth_getBlockByNumber", params: [numberToHex(block), true] });
    }
    const countPolls = async () => {
      counted.takeRequests();
      for (let poll = 0; poll < 5; poll++) await request({ method: "eth_getBlockByNumber", params: ["latest", true] });
      return counted.takeRequests().length;
    };
    return { counted, countPolls, time: Number(timestamp) * 1000 };
  };

  test("answers from memory until the chain can have another one, by the time between the last ones", async () => {
    const { counted, countPolls, time } = await connect(12_000);
    vi.useFakeTimers({ toFake: ["Date"], now: time + 2_000 });
    onTestFinished(() => void vi.useRealTimers());
    expect(await countPolls()).toBe(1);
    vi.setSystemTime(time + 11_900);
    expect(await countPolls()).toBe(0);
    vi.setSystemTime(time + 12_000);
    expect(await countPolls()).toBe(5);

    // The block arrives 3 s before its time.
    await counted.mine("other", time + 15_000);
    expect(await countPolls()).toBe(1);
    vi.setSystemTime(time + 24_000);
    expect(await countPolls()).toBe(5);
  });

  test("requests it each time on a chain with a block every second", async () => {
    const { countPolls } = await connect(1_000);
    expect(await countPolls()).toBe(5);
  });
});

describe("ChainRpc with an endpoint that is stuck, and first", () => {
  const connect = async () => {
    const { url, client } = await createChain(8453);
    const [stuck, other] = [await startRpcProxy(url), await startRpcProxy(url)];
    const block = await askNode(url, { method: "eth_getBlockByNumber", params: ["latest", true] });
    stuck.intercept = ({ method, params }) =>
      method === "eth_getBlockByNumber" && params[0] === "latest" ? block : undefined;
    const { request } = clientOf(stuck.url, other.url);
    const poll = async (): Promise<number> => {
      const { number } = (await request({ method: "eth_getBlockByNumber", params: ["latest", true] })) as {
        number: Hex;
      };
      return Number(number);
    };
    const now = Date.now();
    vi.useFakeTimers({ toFake: ["Date"], now });
    onTestFinished(() => void vi.useRealTimers());
    return { client, stuck, other, poll, passSeconds: (seconds: number) => vi.setSystemTime(now + seconds * 1000) };
  };

  test("asks the others after 30 s, and follows them from then on", async () => {
    const { client, other, poll, passSeconds } = await connect();
    expect(await poll()).toBe(0);
    await client.mine({ blocks: 2 });
    passSeconds(29);
    expect(await poll()).toBe(0);
    passSeconds(31);
    expect(await poll()).toBe(2);
    await client.mine({ blocks: 1 });
    passSeconds(32);
    expect(await poll()).toBe(3);
    // The block of the stuck endpoint is not taken for a shorter chain, even while the other one is out.
    passSeconds(100);
    expect(await poll()).toBe(3);
    other.intercept = () => ({ status: 503 });
    passSeconds(140);
    await expect(poll()).rejects.toThrow("503");
    other.intercept = () => undefined;
    passSeconds(200);
    expect(await poll()).toBe(3);
  });

  test("asks the others once in 30 s while the chain has no new block", async () => {
    const { other, poll, passSeconds } = await connect();
    await poll();
    const before = other.seen.length;
    for (let second = 1; second <= 65; second++) {
      passSeconds(second);
      await poll();
    }
    expect(other.seen.slice(before).filter(({ method }) => method === "eth_getBlockByNumber")).toHaveLength(2);
  });
});

test("ChainRpc finds logs that Ponder has not received on the fork of a block, and not on others", async () => {
  const { url, client, accounts } = await createChain(8453);
  const [account = zeroAddress, delegate = zeroAddress] = accounts;
  const rpc = new ChainRpc({ chainId: 8453, urls: [url], registries: [REGISTRY] });
  const readBlocks = async () => {
    for (let block = 1n; block <= (await client.getBlockNumber()); block++) {
      await rpc.request({ method: "eth_getBlockByNumber", params: [numberToHex(block), true] });
    }
    return (await client.getBlock()).hash;
  };

  const snapshot = await client.snapshot();
  const data = encodeV2("delegateAll", [delegate, zeroHash, true]);
  await client.sendTransaction({ account, chain: null, to: REGISTRY, data });
  await client.mine({ blocks: 6 });
  await rpc.request({ method: "eth_getBlockByNumber", params: ["latest", true] });
  const withLogs = await readBlocks();
  await client.revert({ id: snapshot });
  for (let block = 0; block < 8; block++) await client.mine({ blocks: 1 });
  const withoutLogs = await readBlocks();

  expect(rpc.findMissedBlock(1n, withLogs)).toMatchObject({ number: "0x1" });
  expect(rpc.findMissedBlock(2n, withLogs), "an earlier block is not live").toBeUndefined();
  expect(rpc.findMissedBlock(1n, withoutLogs)).toBeUndefined();
});

test("ChainRpc throws errors with only the host of an endpoint's URL", async ({ first }) => {
  const { host } = new URL(first.url);
  const { request } = clientOf(`http://user:pa55@${host}/v2/s3cret?key=s3cret`);
  for (const failure of [{ status: 503 }, { error: { code: -32000, message: "no" } }]) {
    first.intercept = () => failure;
    const error: unknown = await request(HEAD).catch((error: unknown) => error);
    const text = inspect(error, { depth: 10, showHidden: true });
    expect(text).toContain(host);
    expect(text).not.toMatch(/s3cret|pa55/);
  }
});

test("ChainRpc works with a viem client", async ({ chain }) => {
  expect(await getChainId(createChainClient(8453, [chain.url]))).toBe(8453);
});
