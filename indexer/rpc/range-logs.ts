import { setTimeout as sleep } from "node:timers/promises";
import { type Address, numberToHex, toEventSelector } from "viem";
import { BoundedMap } from "../../process/bounded.ts";
import { registryV1Abi, registryV2Abi } from "../../registry/abi.ts";
import type { BlockRange } from "../plan.ts";
import type { Endpoint } from "./endpoint.ts";
import type { Endpoints } from "./endpoints.ts";
import { includesAddress, parseLogs, type RangeFilter, type RpcLog, uniqueLogs } from "./json-rpc.ts";
import { ReceiptLogs } from "./receipt-logs.ts";
import { isRefusedRange, isSlow, isUnreachable, RateLimitError } from "./rpc-errors.ts";

/** Enough for the ranges that Ponder has in flight, of 100,000 blocks in all: it requests each once per kind of event. */
const MIN_CACHED_RANGES = 32;
const MAX_CACHED_BLOCKS = 100_000;
/** Rate limits in a row before a request fails. The endpoint pauses after each, for longer and longer. */
const MAX_RATE_LIMITS = 6;
/** Attempts to fetch one of several parts: with the last one failing, all others would be fetched again. */
const ATTEMPTS = 4;
const RETRY_MS = 250;
/** A response with as many logs may lack the ones after them. Few ranges have so many. */
const MIN_TRUNCATED_LOGS = 20;

type NamedLogs = { endpoint: Endpoint; logs: RpcLog[] };

const EVENTS = [...registryV1Abi, ...registryV2Abi]
  .filter((item) => item.type === "event")
  .map((event) => toEventSelector(event));

/**
 * Fetches the logs of block ranges. A node that lacks logs returns a list without them, so each range is requested
 * twice and the result is the union: from two endpoints, or from one with two different filters. Ponder requests a range
 * once per kind of event; all these requests share one response. In ranges that have to be proven, the logs in the blocks'
 * receipts are part of the union.
 */
export class RangeLogs {
  readonly #chainId: number;
  readonly #endpoints: Endpoints;
  readonly #registries: readonly Address[];
  readonly #receiptLogs: ReceiptLogs;
  readonly #cached = new BoundedMap<string, Promise<RpcLog[]>>(MIN_CACHED_RANGES);
  #hasWarned = false;

  constructor(
    chainId: number,
    endpoints: Endpoints,
    registries: readonly Address[],
    provenRanges: readonly BlockRange[] = [],
  ) {
    this.#chainId = chainId;
    this.#endpoints = endpoints;
    this.#registries = registries;
    this.#receiptLogs = new ReceiptLogs(endpoints, provenRanges);
  }

  /** @param isProven - false for logs that are compared with others anyway: their ranges need no receipts */
  async fetch(filter: RangeFilter, isProven = true): Promise<RpcLog[]> {
    const { topics: _, ...range } = filter;
    const wide = this.#isCovered(filter) ? { ...range, address: this.#registries } : filter;
    const logs = await this.#fetchCached(wide, isProven);
    return logs.filter((log) => matches(log, filter));
  }

  /** True if the registries' logs include all logs of a filter. */
  #isCovered({ address }: RangeFilter): boolean {
    const wanted = [address ?? []].flat();
    return wanted.length > 0 && wanted.every((one) => includesAddress(this.#registries, one));
  }

  async #fetchCached(filter: RangeFilter, isProven: boolean): Promise<RpcLog[]> {
    const key = JSON.stringify([filter, isProven]);
    const response = this.#cached.get(key) ?? this.#fetchUnion(filter, isProven);
    const blocks = Number(filter.toBlock) - Number(filter.fromBlock) + 1;
    this.#cached.max = Math.max(MIN_CACHED_RANGES, MAX_CACHED_BLOCKS / blocks);
    this.#cached.set(key, response);
    try {
      return await response;
    } catch (error) {
      this.#cached.delete(key);
      throw error;
    }
  }

  async #fetchUnion(filter: RangeFilter, isProven: boolean): Promise<RpcLog[]> {
    const receipts = isProven ? this.#receiptLogs.fetch(filter) : [];
    const [responses, proven] = await Promise.all([this.#fetchTwice(filter), receipts]);
    const wanted = proven.filter((log) => matches(log, filter));
    const union = uniqueLogs([...wanted, ...responses.flatMap(({ logs }) => logs)]);
    for (const { endpoint, logs } of responses) {
      if (logs.length < union.length) this.#reportMissing(endpoint, filter, union.length - logs.length);
    }
    return union.sort(byPosition);
  }

  /** Sends both requests at the same time. While an endpoint fails, others are asked one after another. */
  async #fetchTwice(filter: RangeFilter): Promise<NamedLogs[]> {
    const now = Date.now();
    const endpoints = this.#endpoints.listForHistory();
    const ready = endpoints.filter((endpoint) => !endpoint.isCoolingDown(now)).slice(0, 2);
    const answered: NamedLogs[] = [];
    let failure: unknown = new Error(`No endpoint of chain ${this.#chainId} has the logs of old blocks.`);
    const ask = async (endpoint: Endpoint, request = fetchRange(endpoint, filter)) => {
      try {
        answered.push({ endpoint, logs: await request });
      } catch (error) {
        failure = error;
      }
    };
    const askAgain = (endpoint: Endpoint) => ask(endpoint, this.#fetchOtherwise(endpoint, filter));

    const [first] = ready;
    const again = first && ready.length === 1 ? [askAgain(first)] : [];
    await Promise.all([...ready.map((endpoint) => ask(endpoint)), ...again]);
    for (const endpoint of endpoints) {
      if (answered.length === 2 || (answered.length === 1 && endpoint.isCoolingDown(now))) break;
      if (!ready.includes(endpoint)) await ask(endpoint);
    }
    const [answer] = answered;
    if (answered.length === 1 && answer) await askAgain(answer.endpoint);
    if (answered.length < 2) throw failure;
    return answered;
  }

  /** Requests the same logs with another filter: no cache on the way has its response. */
  #fetchOtherwise(endpoint: Endpoint, filter: RangeFilter): Promise<RpcLog[]> {
    const other = filter.address === this.#registries ? { ...filter, topics: [EVENTS] } : filter;
    return fetchRange(endpoint, other, { isTruncatedAlike: true });
  }

  /** With another endpoint to use, an endpoint that lacks logs is not asked for old logs again. */
  #reportMissing(endpoint: Endpoint, { fromBlock, toBlock }: RangeFilter, missing: number) {
    const isLast = this.#endpoints.listForHistory().length === 1;
    if (isLast ? this.#hasWarned : endpoint.lacksHistory) return;
    this.#hasWarned = true;
    endpoint.lacksHistory = !isLast;
    console.warn(
      `${endpoint.name} lacks ${missing} logs of chain ${this.#chainId} in blocks ${Number(fromBlock)} to ${Number(toBlock)} that another response has; the result includes them.${isLast ? "" : " It is not used for old blocks any more."}`,
    );
  }
}

/**
 * Fetches a range from one endpoint, in as many parts as its limits require. Some nodes return the first logs of a range
 * without the others: after a response with many, the rest of the range is requested again from its last log on.
 * @param options isTruncatedAlike: true to leave that to another request of the same range
 */
const fetchRange = async (
  endpoint: Endpoint,
  filter: RangeFilter,
  { isTruncatedAlike = false } = {},
): Promise<RpcLog[]> => {
  const to = Number(filter.toBlock);
  const logs: RpcLog[][] = [];
  let [rateLimits, outages] = [0, 0];
  for (let from = Number(filter.fromBlock); from <= to; ) {
    const last = Math.min(to, from + endpoint.range.blocks - 1);
    const blocks = last - from + 1;
    const part = { ...filter, fromBlock: numberToHex(from), toBlock: numberToHex(last) };
    try {
      const found = parseLogs(await endpoint.request({ method: "eth_getLogs", params: [part] }));
      logs.push(found);
      endpoint.range.grow(blocks);
      const mayBeTruncated = !isTruncatedAlike && found.length >= MIN_TRUNCATED_LOGS;
      from = mayBeTruncated ? Math.max(from + 1, Number(found.at(-1)?.blockNumber)) : last + 1;
      [rateLimits, outages] = [0, 0];
    } catch (error) {
      if (isSlow(error)) endpoint.range.shrink(blocks);
      if (error instanceof RateLimitError && ++rateLimits < MAX_RATE_LIMITS) continue;
      if (isUnreachable(error) && logs.length > 0 && ++outages < ATTEMPTS) {
        await sleep(RETRY_MS * outages);
        continue;
      }
      if (!isRefusedRange(error) || blocks === 1) throw error;
      endpoint.range.shrink(blocks);
    }
  }
  return uniqueLogs(logs.flat());
};

const matches = (log: RpcLog, { address, topics }: RangeFilter): boolean =>
  matchesAddress(log, address) && matchesTopics(log, topics);

const matchesAddress = (log: RpcLog, wanted: RangeFilter["address"]): boolean =>
  wanted === undefined || includesAddress([wanted].flat(), log.address);

const matchesTopics = ({ topics }: RpcLog, wanted: RangeFilter["topics"] = []): boolean =>
  wanted.every((topic, index) => {
    const allowed = [topic ?? []].flat();
    return allowed.length === 0 || allowed.some((one) => one === topics[index]);
  });

const byPosition = (a: RpcLog, b: RpcLog) =>
  Number(a.blockNumber) - Number(b.blockNumber) || Number(a.logIndex) - Number(b.logIndex);
