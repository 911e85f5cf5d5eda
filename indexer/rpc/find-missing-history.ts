import { setTimeout as sleep } from "node:timers/promises";
import { type Address, type Hash, numberToHex } from "viem";
import type { BlockRange } from "../plan.ts";
import type { Endpoint } from "./endpoint.ts";
import { logKey, type RpcLog } from "./json-rpc.ts";
import { mapConcurrently } from "./map-concurrently.ts";
import { ATTEMPTS, RETRY_MS, repeatRequest } from "./repeat-request.ts";
import { isRefusedRange, isUnreachable, NodeBehindError } from "./rpc-errors.ts";

/** Parts of the whole range, each of which has to prove a block. */
const PARTS = 32;
/** The greatest distances before a migration of the chain from which a block is proven too. */
const BEFORE_MIGRATION = [1, 100, 10_000, 1_000_000];
/** Blocks of a part that are tried until one has a log, and transactions of a block. */
const BLOCKS = 4;
const RECEIPTS = 4;
/** Parts that are checked at a time. */
const MAX_IN_FLIGHT = 16;
/** The most blocks of which nodes return the fees at once. */
const MAX_FEES = 1_024;

type Header = { transactions: readonly Hash[] };
type Receipt = { logs: RpcLog[] };

/**
 * Searches for a block of a range whose logs an endpoint does not have. Some nodes return no logs, or only some, without
 * an error: of blocks before a migration or below a pruned height, or where their log index has gaps. A receipt shows
 * which logs they should have returned.
 * @param migrations the blocks at which the chain changed to other software
 * @returns what is missing, or null
 */
export const findMissingHistory = async (
  endpoint: Endpoint,
  range: BlockRange,
  migrations: readonly number[] = [],
): Promise<string | null> => {
  let isMissing = false;
  const results = await mapConcurrently(listParts(range, migrations), MAX_IN_FLIGHT, async (part) => {
    if (isMissing) return null;
    const missing = await checkPart(endpoint, part);
    if (missing !== null) isMissing = true;
    return missing;
  });
  return results.find((missing) => missing !== null) ?? null;
};

const listParts = ({ first, last }: BlockRange, migrations: readonly number[]): BlockRange[] => {
  const blocks = Math.ceil((last - first + 1) / PARTS);
  const spread = Array.from({ length: PARTS }, (_, index) => {
    const start = first + index * blocks;
    return { first: start, last: Math.min(last, start + blocks - 1) };
  });
  const dense = migrations.flatMap((block) =>
    BEFORE_MIGRATION.map((before) => ({ first: block - before, last: block - 1 })),
  );
  return [...spread, ...dense]
    .filter((part) => part.first >= first && part.last <= last && part.first <= part.last)
    .sort((a, b) => a.first - b.first);
};

const checkPart = async (endpoint: Endpoint, part: BlockRange): Promise<string | null> => {
  for (const number of await listCandidates(endpoint, part)) {
    const found = await checkBlock(endpoint, number);
    if (typeof found === "string") return found;
    if (found) return null;
  }
  return null;
};

/**
 * Lists blocks of a part that probably have logs: those that used the most gas. On a quiet network most blocks have none.
 * Lists some that are spread over the part if the node does not tell, or none used any.
 */
const listCandidates = async (endpoint: Endpoint, { first, last }: BlockRange): Promise<number[]> => {
  const blocks = last - first + 1;
  const gas = await fetchGasUsed(endpoint, { first, last: first + Math.min(blocks, MAX_FEES) - 1 });
  const busy = [...gas].filter(([, used]) => used > 0).sort(([, a], [, b]) => b - a);
  const spread = Array.from({ length: BLOCKS }, (_, index) => first + Math.floor((index * blocks) / BLOCKS));
  return busy.length > 0 ? busy.slice(0, BLOCKS).map(([number]) => number) : [...new Set(spread)];
};

/** Fetches the share of its gas limit that each block used: one request for many blocks, and no answer of a log index. */
const fetchGasUsed = async (endpoint: Endpoint, { first, last }: BlockRange): Promise<Map<number, number>> => {
  const params = [numberToHex(last - first + 1), numberToHex(last), []];
  const history = await repeatRequest<{ oldestBlock?: string; gasUsedRatio?: unknown }>(
    {
      request: (request) =>
        endpoint.request(request).catch((error) => {
          if (isUnreachable(error)) throw error;
          // A node that does not have the method, or these blocks, refuses it again.
          return {};
        }),
    },
    { method: "eth_feeHistory", params },
  );
  const used = Array.isArray(history?.gasUsedRatio) ? history.gasUsedRatio : [];
  const oldest = Number(history?.oldestBlock);
  return new Map(used.map((share, index): [number, number] => [oldest + index, Number(share)]));
};

/** @returns true if the endpoint has the logs of the block, false if the block seems to have none, or what is missing */
const checkBlock = async (endpoint: Endpoint, number: number): Promise<boolean | string> => {
  const header = { method: "eth_getBlockByNumber", params: [numberToHex(number), false] };
  const block = await repeatRequest<Header>(endpoint, header);
  if (!block) return `it does not have block ${number}`;
  for (const hash of block.transactions.slice(0, RECEIPTS)) {
    const receipt = await repeatRequest<Receipt>(endpoint, { method: "eth_getTransactionReceipt", params: [hash] });
    if (!receipt) return `it does not have the receipts of block ${number}`;
    if (receipt.logs.length > 0) return (await findMissingLogs(endpoint, number, receipt.logs)) ?? true;
  }
  return false;
};

const findMissingLogs = async (
  endpoint: Endpoint,
  number: number,
  expected: readonly RpcLog[],
): Promise<string | null> => {
  const address = [...new Set(expected.map((log) => log.address))];
  const filter = { address, fromBlock: numberToHex(number), toBlock: numberToHex(number) };
  const hasAll = (logs: readonly RpcLog[]) => {
    const keys = new Set(logs.map(logKey));
    return expected.every((log) => keys.has(logKey(log)));
  };
  const logs = await repeatRequest<RpcLog[]>(endpoint, { method: "eth_getLogs", params: [filter] }, hasAll);
  if (logs && hasAll(logs)) return null;
  return logs?.length
    ? `it returns only some logs of block ${number}, whose receipts have more`
    : `it returns no logs of block ${number}, whose receipts have some`;
};

/** The limits of providers, and smaller ones. A range below a limit costs requests: half of it, twice as many. */
const RANGES = [10_000, 5_000, 3_000, 2_000, 1_000, 500, 200, 100, 50, 30, 10, 5, 2];

/** Finds how many blocks an endpoint accepts in one request for the registries' logs. */
export const findLogsRange = async (
  endpoint: Endpoint,
  address: readonly Address[],
  { first, last }: BlockRange,
): Promise<number> => {
  const ranges = RANGES.filter((blocks) => blocks <= last + 1);
  let [index, outages] = [0, 0];
  for (;;) {
    const blocks = ranges[index] ?? 1;
    const from = Math.min(first, last + 1 - blocks);
    const filter = { address, fromBlock: numberToHex(from), toBlock: numberToHex(from + blocks - 1) };
    try {
      await endpoint.request({ method: "eth_getLogs", params: [filter] });
      return blocks;
    } catch (error) {
      const isTooLarge = isRefusedRange(error) || error instanceof NodeBehindError;
      if (isTooLarge && blocks > 1) index++;
      else if (isUnreachable(error) && ++outages < ATTEMPTS) await sleep(RETRY_MS * outages);
      else throw error;
    }
  }
};
