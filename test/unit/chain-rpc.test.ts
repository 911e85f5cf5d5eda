import { inspect } from "node:util";
import { type Address, type Hash, type Hex, type Log, numberToHex, toEventSelector, zeroAddress, zeroHash } from "viem";
import { getChainId } from "viem/actions";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { ChainRpc, createChainClient } from "../../indexer/rpc/chain-rpc.ts";
import { encodeV1, encodeV2 } from "../../local/calls.ts";
import type { LocalChain } from "../../local/chain.ts";
import { networks } from "../../registry/networks.ts";
import { launchCountedChain } from "../support/indexed-chain.ts";
import { askNode, startRpcProxy } from "../support/rpc-proxy.ts";
import { createChain, launchChain } from "../support/setup.ts";

type Filter = { topics?: unknown; blockHash?: unknown };

const UNKNOWN = `0x${"ab".repeat(32)}` as const;

/** Pause between retries, long enough for other requests. */
const RETRY_MS = 10;
const clientOf = (...urls: string[]) =>
  new ChainRpc({ chainId: 8453, urls, unknownBlockWaitMs: RETRY_MS }).transport({ retryCount: 0 });

let chain: LocalChain;

beforeAll(async () => {
  chain = await launchChain(8453);
});

afterAll(() => chain.stop());

/** Creates two endpoints of the same chain. */
const createEndpoints = async () => {
  const [first, second] = [await startRpcProxy(chain.url), await startRpcProxy(chain.url)];
  const { request } = clientOf(first.url, second.url);
  return { first, second, request };
};

describe("ChainRpc with several endpoints", () => {
  test("uses the first one that answers, and skips one that failed", async () => {
    const { first, second, request } = await createEndpoints();
    first.intercept = () => ({ status: 503 });
    expect(await request({ method: "eth_blockNumber" })).toBe("0x0");
    expect(await request({ method: "eth_blockNumber" })).toBe("0x0");
    expect(first.seen).toHaveLength(1);
    expect(second.seen.filter(({ method }) => method === "eth_blockNumber")).toHaveLength(2);
  });

  test("retries a failed one when all others fail", async () => {
    const { first, second, request } = await createEndpoints();
    first.intercept = () => ({ status: 503 });
    await request({ method: "eth_blockNumber" });
    first.intercept = () => undefined;
    second.intercept = () => ({ status: 503 });
    expect(await request({ method: "eth_blockNumber" })).toBe("0x0");
  });

  test("throws the first endpoint's error when all fail, as Ponder reads a provider's limits from it", async () => {
    const { first, second, request } = await createEndpoints();
    await request({ method: "eth_blockNumber" });
    first.intercept = () => ({ error: { code: -32005, message: "query returned more than 10000 results" } });
    second.intercept = () => ({ status: 500 });
    await expect(request({ method: "eth_getLogs", params: [{ fromBlock: "0x0" }] })).rejects.toThrow(
      /more than 10000 results/,
    );
  });

  test("never uses an endpoint on another chain", async () => {
    const wrong = await createChain(10);
    await wrong.client.mine({ blocks: 3 });
    const { request } = clientOf(wrong.url, chain.url);
    expect(await request({ method: "eth_blockNumber" })).toBe("0x0");

    const { request: onlyWrong } = clientOf(wrong.url);
    await expect(onlyWrong({ method: "eth_blockNumber" })).rejects.toThrow(/is on chain 10, not on chain 8453/);
  });
});

describe("ChainRpc over an endpoint that fails for a moment", () => {
  test("reads its chain id again after any failure", async () => {
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
      // The transport reads the chain id again only after the endpoint was unreachable.
      proxy.intercept = () => ({ status: 503 });
      await expect(request({ method: "eth_blockNumber" })).rejects.toThrow();
    }
  });

  test("tries the next endpoint when the body of a chain id stalls for 10 s", async () => {
    const { first, request } = await createEndpoints();
    first.intercept = ({ method }) => (method === "eth_chainId" ? { stalls: true } : undefined);
    const startedAt = Date.now();
    expect(await request({ method: "eth_blockNumber" })).toBe("0x0");
    expect(Date.now() - startedAt).toBeLessThan(20_000);
  });

  test("treats an empty response as a failure, and tries the next endpoint", async () => {
    const { first, request } = await createEndpoints();
    await request({ method: "eth_blockNumber" });
    first.intercept = () => ({ status: 200 });
    expect(await request({ method: "eth_blockNumber" })).toBe("0x0");
  });

  test("retries a block number that the node does not have yet", async () => {
    const proxy = await startRpcProxy(chain.url);
    const { request } = clientOf(proxy.url);
    let asked = 0;
    proxy.intercept = ({ method }) => (method === "eth_getBlockByNumber" && ++asked < 3 ? { result: null } : undefined);
    expect(await request({ method: "eth_getBlockByNumber", params: ["0x0", false] })).toMatchObject({ number: "0x0" });
  });
});

describe("ChainRpc when a node omits some of the registries' logs", () => {
  /** Creates a chain with four logs of one kind in its newest block, and endpoints that can omit some. */
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
    const registries = [v1.address, v2.address];
    const rpc = new ChainRpc({ chainId: 8453, urls, registries, unknownBlockWaitMs: RETRY_MS });
    const transport = rpc.transport({ retryCount: 0 });
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
  test("throws within seconds, with an error that Ponder does not retry", async () => {
    const { request } = new ChainRpc({ chainId: 8453, urls: [chain.url] }).transport({ retryCount: 0 });
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

describe("ChainRpc for the logs of a block", () => {
  const FULLER_BLOOM = `0x${"f".repeat(511)}0`;

  /** Mines a block with two logs, and returns its hash. */
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
  /** Formats a log as JSON-RPC. */
  const formatLog = ({ address, topics, blockHash, blockNumber, logIndex }: Log<bigint, number, false>) => ({
    address,
    topics,
    blockHash,
    blockNumber: numberToHex(blockNumber),
    logIndex: numberToHex(logIndex),
  });
  const askForLogs = (request: ReturnType<typeof clientOf>["request"], hash: Hash) =>
    request({ method: "eth_getLogs", params: [{ blockHash: hash }] });

  test("returns them from the node that has all", async () => {
    const { first, request } = await createEndpoints();
    const hash = await mineLogs();
    first.intercept = ({ method }) => (method === "eth_getLogs" ? { result: [] } : undefined);
    expect(await askForLogs(request, hash)).toHaveLength(2);
  });

  test("accepts fewer than the bloom filter indicates only if the receipts have no more", async () => {
    const { first, second, request } = await createEndpoints();
    const hash = await mineLogs();
    // Hardhat lacks eth_getBlockReceipts; other nodes have it.
    const logs = await chain.client.getLogs({ blockHash: hash });
    const withReceipts =
      (answers: Record<string, unknown>) =>
      ({ method }: { method: string }) => {
        if (method === "eth_getBlockReceipts") return { result: logs.map((log) => ({ logs: [formatLog(log)] })) };
        return method in answers ? { result: answers[method] } : undefined;
      };
    const withholdSome = withReceipts({ eth_getLogs: logs.slice(0, 1).map(formatLog) });
    for (const endpoint of [first, second]) endpoint.intercept = withholdSome;
    await expect(askForLogs(request, hash)).rejects.toThrow(/No node has all logs of block/);

    // On some chains the filter contains more than logs.
    const fill = withReceipts({ eth_getBlockByHash: { hash, logsBloom: FULLER_BLOOM } });
    for (const endpoint of [first, second]) endpoint.intercept = fill;
    expect(await askForLogs(request, hash)).toHaveLength(2);
  });

  test("accepts the logs unverified when bloom filters are empty or full", async () => {
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
  const registry = networks.get(8453)?.v2?.address ?? zeroAddress;
  const [account = zeroAddress, delegate = zeroAddress] = accounts;
  const rpc = new ChainRpc({ chainId: 8453, urls: [url], registries: [registry] });
  const readBlocks = async () => {
    for (let block = 1n; block <= (await client.getBlockNumber()); block++) {
      await rpc.request({ method: "eth_getBlockByNumber", params: [numberToHex(block), true] });
    }
    return (await client.getBlock()).hash;
  };

  const snapshot = await client.snapshot();
  const data = encodeV2("delegateAll", [delegate, zeroHash, true]);
  await client.sendTransaction({ account, chain: null, to: registry, data });
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

test('ChainRpc does not treat "method not found" as "block not found"', async () => {
  const { first, second, request } = await createEndpoints();
  await request({ method: "eth_blockNumber" });
  const without = () => ({ error: { code: -32601, message: "the method eth_getBlockReceipts was not found" } });
  first.intercept = without;
  second.intercept = without;
  const asked = request({ method: "eth_getBlockReceipts", params: [UNKNOWN] });
  await expect(asked).rejects.toMatchObject({ code: -32601 });
});

test("ChainRpc throws errors with only the host of an endpoint's URL", async () => {
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

test("ChainRpc works with a viem client", async () => {
  const client = createChainClient(8453, [chain.url]);
  expect(await getChainId(client)).toBe(8453);
});
