import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import pg from "pg";
import { startEmbeddedPostgres } from "../local/embedded-postgres.ts";
import { runUntilStopped } from "../process/program.ts";
import { countMethods, launchCountedChain } from "../test/support/indexed-chain.ts";
import { launchIndexerProcess } from "../test/support/indexer.ts";
import type { RpcRequest } from "../test/support/rpc-proxy.ts";
import { printTable } from "../test/support/run.ts";
import { waitUntilIndexed } from "../test/support/setup.ts";
import { withDatabase } from "./with-database.ts";

// npm run rpc-cost: counts an indexer's requests to local chains, by method. docs/indexing.md has the newest figures.

const DAY_S = 86_400;
const WARM_UP_MS = 15_000;

type CountedChain = Awaited<ReturnType<typeof launchCountedChain>>;
type Counts = Record<string, number>;
type Subject = Parameters<typeof launchCountedChain>[0] & {
  name: string;
  /** Time from a block's timestamp until nodes have it: some seconds on Ethereum. */
  delayMs?: number;
  /** What new blocks have; without it there are none. */
  logs?: Parameters<CountedChain["mine"]>[0];
};

const LIVE: readonly Subject[] = [
  { name: "12 s", chainId: 1, blockMs: 12_000, delayMs: 3_000, logs: "other" },
  { name: "12 s, WebSocket", chainId: 11155111, blockMs: 12_000, delayMs: 3_000, logs: "other", hasWebSocket: true },
  { name: "2 s", chainId: 10, blockMs: 2_000, logs: "other" },
  { name: "2 s, WebSocket", chainId: 8453, blockMs: 2_000, logs: "other", hasWebSocket: true },
  { name: "2 s, no logs", chainId: 59144, blockMs: 2_000, logs: "none" },
  { name: "2 s, registry logs", chainId: 137, blockMs: 2_000, logs: "registry" },
  { name: "2 s, two endpoints", chainId: 43114, blockMs: 2_000, logs: "other", endpoints: 2 },
  { name: "0.25 s", chainId: 42161, blockMs: 250, logs: "other" },
  { name: "0.25 s, WebSocket", chainId: 42170, blockMs: 250, logs: "other", hasWebSocket: true },
  { name: "quiet", chainId: 1996, blockMs: 2_000 },
  { name: "quiet, WebSocket", chainId: 2911, blockMs: 2_000, hasWebSocket: true },
];

/** A start without history, and with some. */
const HISTORY: readonly Subject[] = [
  { name: "start", chainId: 43114, blockMs: 2_000 },
  { name: "ranges of 10", chainId: 10, blockMs: 2_000, history: { range: 10, blocks: 5_000 } },
  { name: "ranges of 2,000", chainId: 8453, blockMs: 2_000, history: { range: 2_000, blocks: 400_000 } },
  { name: "ranges of 10,000", chainId: 59144, blockMs: 2_000, history: { range: 10_000, blocks: 2_000_000 } },
];

const keepMining = async ({ mine }: CountedChain, { blockMs, delayMs = 0, logs }: Subject, signal: AbortSignal) => {
  for (let next = Math.ceil(Date.now() / blockMs) * blockMs; logs; next += blockMs) {
    await sleep(Math.max(0, next + delayMs - Date.now()), undefined, { signal });
    await mine(logs, next);
  }
};

/** Indexes chains, and counts the requests until the index has caught up, and then for some seconds. */
const measure = async (databaseUrl: string, subjects: readonly Subject[], seconds: number) => {
  const chains: CountedChain[] = [];
  const database = new pg.Client(databaseUrl);
  const stopping = new AbortController();
  let indexer: Awaited<ReturnType<typeof launchIndexerProcess>> | undefined;
  try {
    for (const subject of subjects) chains.push(await launchCountedChain(subject));
    await database.connect();
    const wsUrls = chains.map(({ chainId, wsUrl }) => [`PONDER_WS_URL_${chainId}`, wsUrl]);
    const env = { POLLING_INTERVAL_MS: "1000", ...Object.fromEntries(wsUrls) };
    indexer = await launchIndexerProcess({ databaseUrl, chains, env });
    for (const { chain } of chains) await waitUntilIndexed(database, chain, { seconds: 600 });
    const start = chains.map(({ takeRequests }) => takeRequests());

    for (const [index, subject] of subjects.entries()) {
      const chain = chains[index];
      if (chain) keepMining(chain, subject, stopping.signal).catch(() => {});
    }
    await sleep(WARM_UP_MS);
    for (const { takeRequests } of chains) takeRequests();
    await sleep(seconds * 1000);
    const live = chains.map(({ takeRequests }) => countMethods(takeRequests()));
    return subjects.map((subject, index) => ({ subject, start: start[index] ?? [], live: live[index] ?? {} }));
  } finally {
    stopping.abort();
    await indexer?.stop();
    await database.end();
    for (const { stop } of chains) await stop();
  }
};

/** The blocks that each start of Ponder checks again. */
const RECENT_BLOCKS = 600;

const isForOldLogs = ({ method, params }: RpcRequest, before: number): boolean =>
  method === "eth_getLogs" && Number((params[0] as { toBlock: string }).toBlock) < before;

const METHODS = [
  "eth_chainId",
  "eth_blockNumber",
  "eth_getBlockByNumber",
  "eth_getBlockByHash",
  "eth_getTransactionReceipt",
  "eth_getBlockReceipts",
  "eth_getLogs",
];

const sum = (counts: Counts) => Object.values(counts).reduce((total, count) => total + count, 0);
const format = (count: number) => Math.round(count).toLocaleString("en");

/** Prints counts by method, and one figure that follows from them. */
const print = (title: string, rows: readonly { name: string; counts: Counts; figure: number }[], figure: string) => {
  const methods = METHODS.filter((method) => rows.some(({ counts }) => counts[method]));
  const cells = rows.map(({ name, counts, figure }) => [
    name,
    ...methods.map((method) => format(counts[method] ?? 0)),
    format(figure),
  ]);
  console.log(`${printTable([title, ...methods, figure], cells)}\n`);
};

await runUntilStopped(async () => {
  const { values } = parseArgs({ options: { seconds: { type: "string", default: "120" } } });
  const seconds = Number(values.seconds);
  const directory = await mkdtemp(join(tmpdir(), "delegation-registry-rpc-cost-"));
  const postgres = await startEmbeddedPostgres({ directory, disposable: true });
  try {
    const history = await withDatabase(postgres.url, "history", (url) => measure(url, HISTORY, 0));
    const rows = history.map(({ subject: { name, history }, start }) => {
      const blocks = Math.max(1, (history?.blocks ?? 0) - RECENT_BLOCKS);
      const old = start.filter((request) => isForOldLogs(request, blocks));
      return { name, counts: countMethods(start), figure: (1_000_000 * old.length) / blocks };
    });
    print("start-up and history", rows, "eth_getLogs per million blocks");

    const live = await withDatabase(postgres.url, "live", (url) => measure(url, LIVE, seconds));
    const perDay = DAY_S / seconds;
    const liveRows = live.map(({ subject: { name }, live: counts }) => ({
      name,
      counts,
      figure: sum(counts) * perDay,
    }));
    print(`live, ${seconds} s`, liveRows, "requests per day");
  } finally {
    await postgres.stop();
    await rm(directory, { recursive: true, force: true });
  }
});
