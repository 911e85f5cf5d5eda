import { hexToBigInt, numberToHex } from "viem";
import type { Dialect } from "./provider-dialects.ts";
import { askNode, type RpcRequest, type RpcResponse } from "./rpc-proxy.ts";

// A simulated RPC provider before a local chain. Its wordings are those of real providers: provider-dialects.ts.

/** How a simulated provider differs from the node behind it. */
export type Behaviour = {
  /** Refuses what the provider refuses. */
  dialect?: Dialect;
  /** The largest range of blocks, and the most logs, instead of the dialect's. */
  maxBlocks?: number;
  maxLogs?: number;
  /** The first block whose logs the node has. For earlier blocks it returns none. */
  logsSince?: number;
  /** The number of blocks by which the node behind this request lacks the newest ones. */
  countBehind?: () => number;
  bloom?: Bloom;
  /** True for a node without eth_getBlockReceipts. */
  lacksReceipts?: boolean;
  /** Answers a request instead of the node: an outage, a rate limit. */
  interrupt?: (request: RpcRequest) => RpcResponse | undefined;
  /** Called for each answer that differs from the node's for one of these reasons. */
  report?: (fault: ProviderFault) => void;
};

export type Bloom = "zeros" | "ones" | "extra bits" | "missing bits";
export type ProviderFault =
  | "range limit"
  | "result limit"
  | "size limit"
  | "no old logs"
  | "old head"
  | `bloom: ${Bloom}`;

type RpcLog = { blockNumber: `0x${string}`; address: string };
type RpcBlock = { number: `0x${string}`; logsBloom: `0x${string}`; transactions: (string | { hash: string })[] };
type Filter = { fromBlock?: string; toBlock?: string; blockHash?: string };

const ZEROS = `0x${"0".repeat(512)}`;
const ONES = `0x${"f".repeat(512)}`;
/** Bits that no value of the tests sets alone: every third one. */
const EXTRA = hexToBigInt(`0x${"924".repeat(170)}92`);

const BLOOMS: Record<Bloom, (bloom: bigint) => string> = {
  zeros: () => ZEROS,
  ones: () => ONES,
  "extra bits": (bloom) => formatBloom(bloom | EXTRA),
  // One bit is left, as Ponder requests the logs of every block whose filter is zero.
  "missing bits": () => formatBloom(1n),
};

const formatBloom = (bloom: bigint) => `0x${bloom.toString(16).padStart(512, "0")}`;

/** Creates an interceptor for an RPC proxy. Changes of the behaviour take effect with the next request. */
export const simulateProvider =
  (target: string, behaviour: Behaviour) =>
  async (request: RpcRequest): Promise<RpcResponse | undefined> => {
    const interruption = behaviour.interrupt?.(request);
    if (interruption) return interruption;
    const { method } = request;
    if (method === "eth_getLogs") return answerLogs(target, behaviour, request);
    if (method === "eth_getBlockReceipts") return behaviour.lacksReceipts ? undefined : answerReceipts(target, request);
    if (method === "eth_getBlockByNumber" || method === "eth_getBlockByHash" || method === "eth_blockNumber") {
      return answerBlock(target, behaviour, request);
    }
    return undefined;
  };

const answerLogs = async (target: string, behaviour: Behaviour, { method, params }: RpcRequest) => {
  const { dialect, logsSince = 0, report } = behaviour;
  const refuse = (fault: ProviderFault, limit: { refuse: (from: number, to: number) => RpcResponse }) => {
    report?.(fault);
    return limit.refuse(from, to);
  };
  const filter = params[0] as Filter;
  const [from, to] = [Number(filter.fromBlock), Number(filter.toBlock)];
  const maxBlocks = behaviour.maxBlocks ?? dialect?.range?.blocks ?? Number.POSITIVE_INFINITY;
  if (to - from + 1 > maxBlocks && dialect?.range) return refuse("range limit", dialect.range);

  const answer = await askNode(target, { method, params });
  if (!("result" in answer)) return answer;
  const all = answer.result as RpcLog[];
  const logs = all.filter(({ blockNumber }) => Number(blockNumber) >= logsSince);
  const maxLogs = behaviour.maxLogs ?? dialect?.results?.logs ?? Number.POSITIVE_INFINITY;
  if (logs.length > maxLogs && dialect?.results) return refuse("result limit", dialect.results);
  const maxBytes = dialect?.size?.bytes ?? Number.POSITIVE_INFINITY;
  if (dialect?.size && JSON.stringify(logs).length > maxBytes) return refuse("size limit", dialect.size);
  if (logs.length < all.length) report?.("no old logs");
  return { result: logs };
};

/** Hardhat has no eth_getBlockReceipts. */
const answerReceipts = async (target: string, { params }: RpcRequest): Promise<RpcResponse> => {
  const answer = await askNode(target, { method: "eth_getBlockByHash", params: [params[0], false] });
  const block = "result" in answer ? (answer.result as RpcBlock | null) : null;
  if (!block) return { result: null };
  const receipts = await Promise.all(
    block.transactions.map((hash) => askNode(target, { method: "eth_getTransactionReceipt", params: [hash] })),
  );
  return { result: receipts.flatMap((receipt) => ("result" in receipt ? [receipt.result] : [])) };
};

const answerBlock = async (target: string, behaviour: Behaviour, { method, params }: RpcRequest) => {
  const { countBehind, bloom, report } = behaviour;
  const behind = countBehind?.() ?? 0;
  const number = await askNode(target, { method: "eth_blockNumber", params: [] });
  const newest = Math.max(0, Number("result" in number ? number.result : 0) - behind);
  if (method === "eth_blockNumber") return { result: numberToHex(newest) };
  if (behind > 0 && params[0] === "latest") report?.("old head");
  const asked = params[0] === "latest" ? numberToHex(newest) : params[0];
  if (method === "eth_getBlockByNumber" && Number(asked) > newest) return { result: null };
  const answer = await askNode(target, { method, params: [asked, params[1]] });
  if (!bloom || !("result" in answer) || !answer.result) return answer;
  const block = answer.result as RpcBlock;
  report?.(`bloom: ${bloom}`);
  return { result: { ...block, logsBloom: BLOOMS[bloom](hexToBigInt(block.logsBloom)) } };
};
