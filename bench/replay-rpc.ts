import { createServer } from "node:http";
import type { Address, Hex } from "viem";
import { networks } from "../registry/networks.ts";
import { ReplayChain } from "./replay-chain.ts";

// An RPC node of a generated chain 1 with a given number of registry events:
// node --import tsx bench/replay-rpc.ts <port> <events>

const [port, events] = process.argv.slice(2).map(Number);
const mainnet = networks.get(1);
if (!port || !events || !mainnet?.v1 || !mainnet.v2) throw new Error("Usage: replay-rpc.ts <port> <events>");
const chain = new ReplayChain(events, { v1: mainnet.v1.address, v2: mainnet.v2.address });

/** Time of the first request for logs. Before that, the indexer is still starting. */
let firstLogsAt: number | null = null;

type LogFilter = { address: Address | Address[]; fromBlock: Hex; toBlock: Hex; blockHash?: Hex };

const blockAt = (number: number | null, withTransactions: boolean) =>
  number === null || number > chain.head ? null : chain.block(number, withTransactions);

const findLogs = ({ address, fromBlock, toBlock, blockHash }: LogFilter) => {
  const from = blockHash ? (chain.blockNumber(blockHash) ?? 0) : Number(fromBlock);
  const to = blockHash ? from : Math.min(Number(toBlock), chain.head);
  const numbers = Array.from({ length: to - from + 1 }, (_, index) => from + index);
  return numbers.flatMap((number) => [address].flat().flatMap((one) => chain.logs(number, one)));
};

const methods: Record<string, (...params: never[]) => unknown> = {
  eth_chainId: () => "0x1",
  eth_blockNumber: () => `0x${chain.head.toString(16)}`,
  eth_getBlockByNumber: (number: Hex | "latest", withTransactions: boolean) =>
    blockAt(number === "latest" ? chain.head : Number(number), withTransactions),
  eth_getBlockByHash: (hash: Hex, withTransactions: boolean) => blockAt(chain.blockNumber(hash), withTransactions),
  eth_getLogs: (filter: LogFilter) => {
    firstLogsAt ??= Date.now();
    return findLogs(filter);
  },
  replay_firstLogsAt: () => firstLogsAt,
};

const answer = (body: string) => {
  const { id, method, params } = JSON.parse(body);
  const run = methods[method];
  if (!run) return { jsonrpc: "2.0", id, error: { code: -32601, message: `There is no method ${method}.` } };
  return { jsonrpc: "2.0", id, result: run(...((params ?? []) as never[])) };
};

createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(answer(Buffer.concat(chunks).toString())));
  });
}).listen(port, "127.0.0.1");
