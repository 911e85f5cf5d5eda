import { join } from "node:path";
import { test as base, describe, expect, onTestFinished } from "vitest";
import { inspectEndpoint } from "../../indexer/inspect-endpoint.ts";
import { inspectEndpoints } from "../../indexer/inspect-endpoints.ts";
import { parseIndexerSettings } from "../../indexer/settings.ts";
import { startNode } from "../../process/child.ts";
import { launchChainWithLogs } from "../support/indexed-chain.ts";
import { type Behaviour, dialects, simulateProvider } from "../support/provider.ts";
import { askNode, launchHeadSocket, type RpcRequest, type RpcResponse, startRpcProxy } from "../support/rpc-proxy.ts";
import { captureOutput, ROOT } from "../support/run.ts";

const CHAIN = 8453;
/** The blocks that findMissingHistory() samples, and two with transactions to prove state by. */
const STEP = 750;
const BLOCKS = 1 + 16 * STEP;
const LOG_BLOCKS = [1, 2, 3, ...Array.from({ length: 15 }, (_, index) => 1 + (index + 1) * STEP)];
/** Nothing listens there. fetch() refuses port 1 by itself. */
const DEAD = "http://127.0.0.1:4";

const test = base
  .extend("chain", { scope: "file" }, async ({}, { onCleanup }) => {
    const chain = await launchChainWithLogs(CHAIN, BLOCKS, LOG_BLOCKS);
    onCleanup(() => chain.stop());
    return chain;
  })
  /** Starts a provider, and returns its URL. */
  .extend("startProvider", ({ chain }) => async (behaviour: Behaviour): Promise<string> => {
    const proxy = await startRpcProxy(chain.url);
    proxy.intercept = simulateProvider(chain.url, behaviour);
    return proxy.url;
  });

const settingsFor = (urls: readonly string[], others: Record<string, string> = {}) =>
  parseIndexerSettings({ [`PONDER_RPC_URL_${CHAIN}`]: urls.join(","), [`START_BLOCK_${CHAIN}`]: "1", ...others })
    .chains;

const inspect = async (urls: readonly string[], others: Record<string, string> = {}) => {
  const printed: string[] = [];
  const isReady = await inspectEndpoints(
    settingsFor(urls, others),
    (text) => printed.push(text),
    AbortSignal.timeout(60_000),
  );
  const output = printed.join("\n");
  const [table = "", problems = ""] = output.split("\n\n");
  const rows = table
    .split("\n")
    .slice(1)
    .map((line) => line.split(/ {2,}/));
  return { isReady, output, rows, problems: problems.split("\n") };
};

/** True for state that a pruning node does not have. It keeps that of the genesis block. */
const isOldState = ({ method, params }: RpcRequest) =>
  ["eth_getBalance", "eth_getTransactionCount", "eth_getCode"].includes(method) &&
  Number(params[1]) > 0 &&
  Number(params[1]) < BLOCKS - 128;

const RIGHT = ["yes", "right", String(BLOCKS), expect.stringMatching(/^\d+ s$/)];
const LATENCY = expect.stringMatching(/^\d+ ms$/);
const host = (url: string) => new URL(url).host;

describe("inspectEndpoints()", () => {
  test("prints a row for each endpoint, and what is wrong with it", async ({ startProvider }) => {
    const [complete, limited, lacking] = [
      await startProvider({}),
      await startProvider({ dialect: dialects.tenderly }),
      await startProvider({ logsSince: 5_000 }),
    ];
    const pruned = await startProvider({
      interrupt: (request) => (isOldState(request) ? dialects.geth.prunedState : undefined),
    });
    const busy = await startProvider({ interrupt: () => dialects.infura.rateLimits[0] });
    const { isReady, output, rows, problems } = await inspect([complete, limited, lacking, pruned, busy, DEAD]);
    expect(rows).toEqual([
      ["8453 Base", host(complete), ...RIGHT, "yes", "yes", "10000", LATENCY, "ready"],
      ["8453 Base", host(limited), ...RIGHT, "yes", "yes", "2000", LATENCY, "ready"],
      ["8453 Base", host(lacking), ...RIGHT, "yes", "no", "–", LATENCY, "new blocks only"],
      ["8453 Base", host(pruned), ...RIGHT, "no", "yes", "10000", LATENCY, "no archive state"],
      ["8453 Base", host(busy), "yes", "–", "–", "–", "–", "–", "–", "–", "limits requests"],
      ["8453 Base", host(DEAD), "no", "–", "–", "–", "–", "–", "–", "–", "does not answer"],
    ]);
    expect(problems).toEqual([
      `PONDER_RPC_URL_8453 (${lacking}) new blocks only: it returns no logs of block 1, whose receipts have some. Blocks from 1 are needed, or a later START_BLOCK_8453.`,
      `PONDER_RPC_URL_8453 (${pruned}) no archive state: v1 history cannot be indexed: it does not have the state of block 1. Use an archive node.`,
      expect.stringMatching(/^PONDER_RPC_URL_8453 .* limits requests: .* project ID request rate exceeded/),
      expect.stringMatching(/^PONDER_RPC_URL_8453 .* does not answer: /),
    ]);
    expect(isReady).toBe(true);
    const [table = ""] = output.split("\n\n");
    expect(Math.max(...table.split("\n").map((line) => line.length))).toBeLessThanOrEqual(120);
  });

  test("returns false, and says so, for a chain without an endpoint that is ready", async ({ startProvider }) => {
    const { isReady, problems } = await inspect([DEAD, await startProvider({ logsSince: 5_000 })]);
    expect(problems.at(-1)).toBe("Base: no endpoint is ready.");
    expect(isReady).toBe(false);
  });

  test("returns false for an endpoint on another chain, as the indexer does not start with it", async ({
    chain,
    startProvider,
  }) => {
    const wrong = await startProvider({
      interrupt: ({ method }) => (method === "eth_chainId" ? { result: "0xa" } : undefined),
    });
    const { isReady, rows } = await inspect([chain.url, wrong]);
    expect(rows.map((row) => [row[2], row[3], row.at(-1)])).toEqual([
      ["yes", "right", "ready"],
      ["yes", "10", "wrong chain 10"],
    ]);
    expect(isReady).toBe(false);
  });

  test("counts START_BLOCK as the first block", async ({ startProvider }) => {
    const lacking = await startProvider({ logsSince: 5_000 });
    expect(await inspect([lacking], { START_BLOCK_8453: "6000" })).toMatchObject({ isReady: true });
  });

  test("accepts a first block that the chain has not reached", async ({ chain }) => {
    expect(await inspect([chain.url], { START_BLOCK_8453: "100000" })).toMatchObject({ isReady: true });
  });

  test("finds the first block by time without START_BLOCK", async ({ chain }) => {
    const { isReady, rows } = await inspect([chain.url], { START_BLOCK_8453: "" });
    expect(rows).toEqual([["8453 Base", host(chain.url), ...RIGHT, "yes", "yes", "10000", LATENCY, "ready"]]);
    expect(isReady).toBe(true);
  });

  test("inspects WebSockets, which need no history", async ({ chain }) => {
    const heads = await launchHeadSocket(chain.url);
    onTestFinished(heads.stop);
    const { isReady, rows } = await inspect([chain.url], { PONDER_WS_URL_8453: heads.url });
    expect(rows.at(-1)).toEqual(["8453 Base", heads.url, ...RIGHT, "–", "–", "–", LATENCY, "ready"]);
    expect(heads.subscriptions).toBe(1);
    expect(isReady).toBe(true);
    const dead = await inspect([chain.url], { PONDER_WS_URL_8453: "ws://127.0.0.1:4" });
    expect(dead.rows.at(-1)?.at(-1)).toBe("does not answer");
    expect(dead.isReady).toBe(true);
  });

  test("calls an endpoint ready that refuses some requests because of their rate", async ({ startProvider }) => {
    let requests = 0;
    const url = await startProvider({
      interrupt: () => (++requests % 20 === 0 ? dialects.proxyd.rateLimits[0] : undefined),
    });
    const { isReady, rows, problems } = await inspect([url]);
    expect(rows[0]?.at(-1)).toBe("ready, limited");
    expect(problems[0]).toMatch(/ready, limited: it refused [1-9]\d* of \d+ requests because of their rate/);
    expect(isReady).toBe(true);
  });

  test("does not call an endpoint ready whose newest block is old", async ({ chain }) => {
    const stuck = await startRpcProxy(chain.url);
    stuck.intercept = async (request) => {
      if (request.method !== "eth_getBlockByNumber" || request.params[0] !== "latest") return undefined;
      const answer = await askNode(chain.url, request);
      return "result" in answer ? { result: { ...(answer.result as object), timestamp: "0x60000000" } } : answer;
    };
    const { isReady, rows } = await inspect([stuck.url]);
    expect(rows[0]?.slice(5, 6)).toEqual([expect.stringMatching(/^\d+ d$/)]);
    expect(rows[0]?.at(-1)).toBe("behind");
    expect(isReady).toBe(false);
  });

  test("prints no secret of a URL, even if the provider repeats it", async ({ chain }) => {
    const proxy = await startRpcProxy(chain.url);
    proxy.intercept = () => ({ status: 401, body: '{"error":"unknown key 0123456789abcdef, token fedcba9876543210"}' });
    const secrets = "v2/0123456789abcdef?token=fedcba9876543210";
    const { output } = await inspect([`${proxy.url}/${secrets}`, `${DEAD}/${secrets}`], {
      PONDER_WS_URL_8453: `ws://127.0.0.1:4/${secrets}`,
    });
    expect(output).toContain("unknown key …, token …");
    expect(output).not.toMatch(/0123456789abcdef|fedcba9876543210/);
  });
});

// test/index/start-block.test.ts has the refusals of all providers.
test.for<[what: string, answer: RpcResponse, first?: string]>([
  ["refuses", dialects.geth.prunedState],
  ["refuses, if the genesis block is the first block", dialects.geth.prunedState, "0"],
  ["answers with empty accounts", { result: "0x0" }],
  ["answers with the newest state", { result: "0x12" }],
])(
  "inspectEndpoint() finds missing archive state that a node %s",
  async ([, answer, first = "1"], { startProvider }) => {
    const url = await startProvider({ interrupt: (request) => (isOldState(request) ? answer : undefined) });
    const { isReady, rows, problems } = await inspect([url], { START_BLOCK_8453: first });
    expect(rows).toEqual([["8453 Base", host(url), ...RIGHT, "no", "yes", "10000", LATENCY, "no archive state"]]);
    expect(problems[0]).toContain("no archive state: v1 history cannot be indexed");
    expect(isReady).toBe(false);
  },
);

test("inspectEndpoint() ends at its deadline", async ({ startProvider }) => {
  const url = await startProvider({ interrupt: () => ({ stalls: true }) });
  const [settings] = settingsFor([url]);
  if (!settings) throw new Error("There is no chain.");
  expect(await inspectEndpoint({ chain: settings, url, isRpc: true }, 300)).toMatchObject({
    verdict: "does not answer",
    reason: "The check takes over 0.3 s.",
  });
});

describe("npm run indexer", () => {
  const run = async (args: string[], settings: Record<string, string> = {}) => {
    const { output, printed } = captureOutput();
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...settings };
    const { code } = await startNode(join(ROOT, "indexer/main.ts"), args, { env, output }).exited;
    return { code, output: printed() };
  };

  test("with --check prints the table, without a database", async ({ chain }) => {
    const settings = { PONDER_RPC_URL_8453: `${DEAD},${chain.url}`, START_BLOCK_8453: "1" };
    const { code, output } = await run(["--check"], settings);
    expect(output).toMatch(
      /^NETWORK +ENDPOINT +UP +CHAIN .* VERDICT\n8453 Base .* does not answer\n8453 Base .* ready\n/,
    );
    expect(code).toBe(0);
  });

  test("with --check prints no secret of a WebSocket that fails while others are tried", async ({ startProvider }) => {
    const busy = await startProvider({ interrupt: () => dialects.infura.rateLimits[0] });
    const { code, output } = await run(["--check"], {
      PONDER_RPC_URL_8453: `ws://127.0.0.1:4/secret-path,${busy}`,
      PONDER_WS_URL_8453: "ws://127.0.0.1:4/?key=secret-key",
    });
    expect(output).toContain("PONDER_WS_URL_8453 (ws://127.0.0.1:4) does not answer: ");
    expect(output).not.toContain("secret");
    expect(code).toBe(1);
  });

  test("with an unknown option prints its usage", async () => {
    const { code, output } = await run(["--chekc"]);
    expect(output).toContain("--check    tries every RPC endpoint");
    expect(code).toBe(1);
  });
});
