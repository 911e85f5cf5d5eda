import { type Hex, numberToHex } from "viem";
import { test as base, describe, expect } from "vitest";
import type { BlockRange } from "../../indexer/plan.ts";
import { ChainRpc } from "../../indexer/rpc/chain-rpc.ts";
import { networks } from "../../registry/networks.ts";
import { countMethods, launchChainWithLogs } from "../support/indexed-chain.ts";
import { type Behaviour, type Dialect, dialects, simulateProvider } from "../support/provider.ts";
import { type RpcRequest, type RpcResponse, startRpcProxy } from "../support/rpc-proxy.ts";

// The transport in front of simulated providers.

const CHAIN = 8453;
const BLOCKS = 30_000;
/** The blocks with a log of the registry: the first and last of every range, and some between. */
const LOG_BLOCKS = [1, 2, 9, 10, 11, 499, 500, 501, 1999, 2000, 2001, 9_999, 10_000, 10_001, 29_999];
/** Blocks after those, each with a log: wherever a range is split, there is one on either side. */
const DENSE_BLOCKS = Array.from({ length: 30 }, (_, index) => BLOCKS + 1 + index);

const registries = [networks.get(CHAIN)?.v1?.address, networks.get(CHAIN)?.v2?.address].filter((one) => one != null);

const test = base
  .extend("chain", { scope: "file" }, async ({}, { onCleanup }) => {
    const chain = await launchChainWithLogs(CHAIN, BLOCKS + DENSE_BLOCKS.length, [...LOG_BLOCKS, ...DENSE_BLOCKS]);
    onCleanup(() => chain.stop());
    return chain;
  })
  /** Connects to the chain over a simulated provider. */
  .extend("connect", ({ chain }) => async (behaviour: Behaviour, provenRanges: BlockRange[] = []) => {
    const proxy = await startRpcProxy(chain.url);
    proxy.intercept = simulateProvider(chain.url, behaviour);
    const rpc = new ChainRpc({ chainId: CHAIN, urls: [proxy.url], registries, provenRanges, unknownBlockWaitMs: 10 });
    const request: (body: { method: string; params: unknown[] }) => Promise<unknown> = rpc.transport({
      retryCount: 0,
    }).request;
    return {
      seen: proxy.seen,
      request,
      countLogRequests: () => proxy.seen.filter(({ method }) => method === "eth_getLogs").length,
      /** Requests the logs of a range, by default from the first block on, and returns their blocks. */
      askRange: async (to: number, from = 0) => {
        const filter = { address: registries, fromBlock: numberToHex(from), toBlock: numberToHex(to) };
        const logs = (await request({ method: "eth_getLogs", params: [filter] })) as { blockNumber: Hex }[];
        return logs.map(({ blockNumber }) => Number(blockNumber));
      },
    };
  });

const withField = <Field extends keyof Dialect>(field: Field) =>
  Object.entries(dialects).flatMap(([name, dialect]: [string, Dialect]) => {
    const value = dialect[field];
    return value === undefined ? [] : [{ name, dialect, value }];
  });

describe("a request for the logs of a range", () => {
  const limited = withField("range").filter(({ value }) => value.blocks < BLOCKS / 2);

  test.for(limited)(
    "is split if it has more blocks than the provider allows: $name",
    async ({ dialect, value: { blocks } }, { connect }) => {
      const { askRange, countLogRequests } = await connect({ dialect });
      const to = Math.min(BLOCKS, blocks * 40) - 1;
      expect(await askRange(to)).toEqual(LOG_BLOCKS.filter((block) => block <= to));
      // Twice the range, in parts of about half the limit or more, and a refusal for each halving and each try of more.
      expect(countLogRequests()).toBeLessThan(2 * Math.ceil(to / (blocks / 2)) + 24);
    },
  );

  test.for([10, 10_000])(
    "of %i costs two requests, however many kinds of events are asked for",
    async (blocks, { connect }) => {
      const { seen, request } = await connect({});
      const ranges = Math.min(100, BLOCKS / blocks);
      for (const address of registries) {
        for (let from = 0; from < ranges * blocks; from += blocks) {
          const filter = { address, fromBlock: numberToHex(from), toBlock: numberToHex(from + blocks - 1) };
          await request({ method: "eth_getLogs", params: [filter] });
        }
      }
      expect(countMethods(seen)).toMatchObject({ eth_chainId: 1, eth_getLogs: 2 * ranges });
    },
  );

  test.for([1, 2, 3, 7, 29])(
    "is split into parts of up to %i blocks without losing a log",
    async (maxBlocks, { connect }) => {
      const { askRange } = await connect({ dialect: dialects.besu, maxBlocks });
      expect(await askRange(BLOCKS + DENSE_BLOCKS.length, BLOCKS + 1)).toEqual(DENSE_BLOCKS);
    },
  );

  test("is not refused again: the limit is remembered", async ({ connect }) => {
    const { askRange, countLogRequests } = await connect({ dialect: dialects.besu, maxBlocks: 100 });
    await askRange(1000);
    const before = countLogRequests();
    await askRange(500);
    expect(countLogRequests() - before).toBeLessThanOrEqual(2 * Math.ceil(501 / 50) + 2);
  });

  const refusals = [
    ...withField("results").map(({ name, dialect }) => ({ what: "has too many logs", name, dialect, maxLogs: 3 })),
    ...withField("size").map(({ name, dialect, value }) => ({
      what: "is too large",
      name,
      dialect: { ...dialect, size: { ...value, bytes: 2_000 } },
      maxLogs: BLOCKS,
    })),
  ];
  test.for(refusals)("is split when its response $what: $name", async ({ dialect, maxLogs }, { connect }) => {
    const { askRange } = await connect({ dialect, maxLogs, maxBlocks: BLOCKS });
    expect(await askRange(BLOCKS)).toEqual(LOG_BLOCKS);
  });
});

const DENSE = { first: BLOCKS + 1, last: BLOCKS + DENSE_BLOCKS.length };

describe("a log index that", () => {
  test("has each log twice: a range, and a block, have it once", async ({ chain, connect }) => {
    const { askRange, request } = await connect({ logIndex: { defect: "twice" } });
    expect(await askRange(DENSE.last, DENSE.first)).toEqual(DENSE_BLOCKS);
    const { hash } = await chain.client.getBlock();
    expect(await request({ method: "eth_getLogs", params: [{ blockHash: hash }] })).toHaveLength(1);
  });

  test.for([20, 29])("truncates responses to %i logs: a range has all", async (logs, { connect }) => {
    const { askRange } = await connect({ logIndex: { defect: "truncated", logs } });
    expect(await askRange(DENSE.last)).toEqual([...LOG_BLOCKS, ...DENSE_BLOCKS]);
  });
});

describe("the logs of a block without a bloom filter", () => {
  test.for(["zeros", "ones"] as const)(
    "are not returned while its receipts have more: %s",
    async (bloom, { chain, connect }) => {
      const { hash } = await chain.client.getBlock({ blockNumber: BigInt(DENSE.last) });
      const request = { method: "eth_getLogs", params: [{ blockHash: hash }] };
      const behind = await connect({ bloom, logIndex: { defect: "behind", blocks: 10 } });
      await expect(behind.request(request)).rejects.toThrow(/No node has all logs of block/);
      const complete = await connect({ bloom });
      expect(await complete.request(request)).toHaveLength(1);
    },
  );
});

describe("the logs of a range that has to be proven", () => {
  const WITHOUT_THIRD = { defect: "without every third log", first: 0, last: DENSE.last } as const;

  test.for<[string, Behaviour]>([
    ["with the receipts of blocks", {}],
    ["with receipts of transactions only", { lacksReceipts: true }],
    ["with bloom filters of zeros", { bloom: "zeros" }],
    ["with bloom filters of ones", { bloom: "ones" }],
  ])("are complete although the log index lacks every third, %s", async ([, behaviour], { connect }) => {
    const logIndex = WITHOUT_THIRD;
    const { askRange } = await connect({ ...behaviour, logIndex }, [DENSE]);
    expect(await askRange(DENSE.last, DENSE.first)).toEqual(DENSE_BLOCKS);
    const unproven = await connect({ ...behaviour, logIndex });
    expect(await unproven.askRange(DENSE.last, DENSE.first), "without a proof").toHaveLength(20);
  });

  test("have the fields of eth_getLogs", async ({ connect }) => {
    const filter = { address: registries, fromBlock: numberToHex(DENSE.first), toBlock: numberToHex(DENSE.last) };
    const request = { method: "eth_getLogs", params: [filter] };
    const complete = await connect({});
    const proven = await connect({ logIndex: { defect: "without logs", first: 0, last: DENSE.last } }, [DENSE]);
    expect(await proven.request(request)).toEqual(await complete.request(request));
  });

  test("cost a header for each block, and receipts where its filter may contain a registry", async ({ connect }) => {
    const { askRange, seen } = await connect({}, [{ first: 0, last: 99 }]);
    expect(await askRange(999)).toEqual(LOG_BLOCKS.filter((block) => block <= 999));
    expect(countMethods(seen)).toMatchObject({ eth_getBlockByNumber: 100, eth_getBlockReceipts: 5, eth_getLogs: 2 });
  });

  test("are those of the log index in a block whose receipts no endpoint has, and complete in others", async ({
    connect,
  }) => {
    const [lacking = 0, ...others] = DENSE_BLOCKS;
    const isReceipt = ({ method, params }: RpcRequest) =>
      method === "eth_getTransactionReceipt" || (method === "eth_getBlockReceipts" && params[0] === lackingHash);
    const { askRange, request } = await connect(
      {
        logIndex: { defect: "without logs", first: DENSE.first, last: DENSE.last },
        interrupt: (sent) => (isReceipt(sent) ? { result: null } : undefined),
      },
      [DENSE],
    );
    const { hash: lackingHash } = (await request({
      method: "eth_getBlockByNumber",
      params: [numberToHex(lacking), false],
    })) as { hash: string };
    expect(await askRange(DENSE.last, DENSE.first)).toEqual(others);
  });
});

describe("a rate limit", () => {
  const refusals = (["rateLimits", "quotas"] as const).flatMap((field) =>
    withField(field).flatMap(({ name, value }) => value.map((refusal, index) => ({ name, field, index, refusal }))),
  );
  test.for(refusals)("is one to Ponder: $field $index of $name", async ({ refusal }, { connect }) => {
    const { request } = await connect({ interrupt: ({ method }) => (method === "eth_call" ? refusal : undefined) });
    await expect(request({ method: "eth_call", params: [{ to: registries[0] }] })).rejects.toMatchObject({ code: 429 });
  });

  test("delays a range, and loses none of its logs", async ({ connect }) => {
    let count = 0;
    const refuse = (): RpcResponse | undefined =>
      ++count % 4 === 0 ? { status: 429, headers: { "retry-after": "0.05" } } : undefined;
    const { askRange } = await connect({ dialect: dialects.besu, interrupt: refuse });
    expect(await askRange(BLOCKS)).toEqual(LOG_BLOCKS);
  });
});

const UNKNOWN_BLOCK = [
  ...withField("unknownBlock").map(({ name, value }) => ({ name, answer: value })),
  ...[
    "blockHash cannot be found",
    "Block with hash 0xab not found",
    "hash 0xab is not currently canonical",
    "requested resource not found",
  ].map((message) => ({ name: message, answer: { error: { code: -32000, message } } })),
];
test.for(UNKNOWN_BLOCK)("an unknown block is an orphan: $name", async ({ answer }, { connect }) => {
  const { request } = await connect({ interrupt: ({ method }) => (method === "eth_getLogs" ? answer : undefined) });
  const blockHash = `0x${"ab".repeat(32)}`;
  await expect(request({ method: "eth_getLogs", params: [{ blockHash }] })).rejects.toThrow(/revert/);
});
