import { setTimeout as sleep } from "node:timers/promises";
import { type Address, type Hash, numberToHex } from "viem";
import type { Endpoint } from "./endpoint.ts";
import { logKey, type RpcLog } from "./json-rpc.ts";
import { isRefusedRange, isUnreachable, NodeBehindError } from "./rpc-errors.ts";

/** Blocks sampled over the whole range, and near each migration of the chain. */
const SAMPLES = 16;
const BEFORE_MIGRATION = [1, 100, 10_000, 1_000_000];
/** Distances from a sampled block at which a block with a log is looked for. */
const NEARBY = [0, 1, 2, 3, 5, 8, 13, 21, 34, 55];
/** Transactions of a block whose receipts are read. */
const RECEIPTS = 4;

type Range = { first: number; last: number };

type Header = { transactions: readonly Hash[] };
type Receipt = { logs: RpcLog[] };

/**
 * Searches for a block of a range whose logs an endpoint does not have. Some nodes return no logs, without an error, for
 * blocks before a migration or below a pruned height. A receipt shows which log they should have returned.
 * @param migrations the blocks at which the chain changed to other software
 * @returns what is missing, or null
 */
export const findMissingHistory = async (
  endpoint: Endpoint,
  { first, last }: Range,
  migrations: readonly number[] = [],
): Promise<string | null> => {
  for (const sample of listSamples({ first, last }, migrations)) {
    for (const distance of NEARBY) {
      const number = sample + distance;
      if (number > last) break;
      const found = await checkBlock(endpoint, number);
      if (typeof found === "string") return found;
      if (found) break;
    }
  }
  return null;
};

const listSamples = ({ first, last }: Range, migrations: readonly number[]): number[] => {
  const step = Math.max(1, Math.floor((last - first) / SAMPLES));
  const spread = Array.from({ length: SAMPLES }, (_, index) => first + index * step);
  const dense = migrations.flatMap((block) => BEFORE_MIGRATION.map((before) => block - before));
  return [...new Set([...spread, ...dense])].filter((block) => block >= first && block <= last).sort((a, b) => a - b);
};

/** @returns true if the endpoint has a log of the block, false if the block seems to have none, or what is missing */
const checkBlock = async (endpoint: Endpoint, number: number): Promise<boolean | string> => {
  const block = await repeatRequest<Header>(endpoint, "eth_getBlockByNumber", [numberToHex(number), false]);
  if (!block) return `it does not have block ${number}`;
  for (const hash of block.transactions.slice(0, RECEIPTS)) {
    const receipt = await repeatRequest<Receipt>(endpoint, "eth_getTransactionReceipt", [hash]);
    if (!receipt) return `it does not have the receipts of block ${number}`;
    const [log] = receipt.logs;
    if (log) return (await hasLog(endpoint, log)) || `it returns no logs of block ${number}, whose receipts have some`;
  }
  return false;
};

const hasLog = async (endpoint: Endpoint, log: RpcLog): Promise<boolean> => {
  const { address, blockNumber } = log;
  const filter = { address, fromBlock: blockNumber, toBlock: blockNumber };
  const logs = await repeatRequest<RpcLog[]>(endpoint, "eth_getLogs", [filter]);
  return logs?.some((other) => logKey(other) === logKey(log)) ?? false;
};

const ATTEMPTS = 6;
const RETRY_MS = 250;

/**
 * Sends a request up to six times within 4 s: behind one URL there may be a node that is out, or lacks a block for a
 * moment.
 * @returns null for a refusal too: a node that refuses old blocks does not have them
 */
export const repeatRequest = async <Result>(
  endpoint: Endpoint,
  method: string,
  params: unknown[],
): Promise<Result | null> => {
  for (let attempt = 1; ; attempt++) {
    const isLast = attempt === ATTEMPTS;
    try {
      const result = (await endpoint.request({ method, params })) as Result | null;
      const isEmpty = result === null || (Array.isArray(result) && result.length === 0);
      if (!isEmpty || isLast) return result;
    } catch (error) {
      if (isLast && isUnreachable(error)) throw error;
      if (isLast) return null;
    }
    await sleep(RETRY_MS * attempt);
  }
};

/** The limits of providers, and smaller ones. A range below a limit costs requests: half of it, twice as many. */
const RANGES = [10_000, 5_000, 3_000, 2_000, 1_000, 500, 200, 100, 50, 30, 10, 5, 2];

/** Finds how many blocks an endpoint accepts in one request for the registries' logs. */
export const findLogsRange = async (
  endpoint: Endpoint,
  address: readonly Address[],
  { first, last }: Range,
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
