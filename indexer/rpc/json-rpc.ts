import type { Address, Hash, Hex } from "viem";

export type JsonRpcRequest = { method: string; params?: unknown };

/** The parameter of eth_getLogs for a range of blocks. */
export type RangeFilter = {
  address?: Address | readonly Address[];
  topics?: (string | string[] | null)[];
  fromBlock?: string;
  toBlock?: string;
};

export type RpcLog = { address: Hex; topics: Hex[]; blockNumber: Hex; blockHash: Hash; logIndex: Hex };

/** Some nodes return a log twice; Ponder rejects such a list. */
export const parseLogs = (result: unknown): RpcLog[] => {
  if (!Array.isArray(result)) throw new Error("A node returned something other than a list of logs.");
  return uniqueLogs(result);
};

/** Keeps the last one of logs that are the same. */
export const uniqueLogs = (logs: readonly RpcLog[]): RpcLog[] => [
  ...new Map(logs.map((log) => [logKey(log), log])).values(),
];

/** Identifies a log. */
export const logKey = ({ blockHash, logIndex }: RpcLog): string => `${blockHash} ${Number(logIndex)}`;

export const isFound = (result: unknown): boolean => result !== null;

export const includesAddress = (addresses: readonly Address[], wanted: string): boolean =>
  addresses.some((address) => address.toLowerCase() === wanted.toLowerCase());

export const firstParam = ({ params }: JsonRpcRequest) => (Array.isArray(params) ? params[0] : undefined);

/** True for a request for a block with its transactions, not just their hashes. */
export const wantsTransactions = ({ params }: JsonRpcRequest): boolean => Array.isArray(params) && params[1] === true;

/** The hash of the block that a request is about, if the request has one. */
export const requestedHash = (request: JsonRpcRequest): Hash | undefined => {
  const { method } = request;
  const first = firstParam(request);
  if (method === "eth_getBlockByHash" || method === "eth_getBlockReceipts") return first;
  if (method === "eth_getLogs") return first?.blockHash;
  return undefined;
};

/** The last block of a request for the logs of a range. */
export const lastRequestedBlock = (request: JsonRpcRequest): bigint | undefined => {
  if (request.method !== "eth_getLogs") return undefined;
  const to = firstParam(request)?.toBlock;
  return typeof to === "string" && to.startsWith("0x") ? BigInt(to) : undefined;
};

/** True for a request for all logs of one block. */
export const isBlockLogsRequest = (request: JsonRpcRequest): boolean => {
  const { blockHash, address, topics } = firstParam(request) ?? {};
  return request.method === "eth_getLogs" && blockHash !== undefined && address === undefined && topics === undefined;
};
