import { setTimeout as sleep } from "node:timers/promises";
import { type Address, type Client, custom, type Hash, type Transport } from "viem";
import type { BlockRange } from "../plan.ts";
import { BlockLogs } from "./block-logs.ts";
import { ChainHead } from "./chain-head.ts";
import { Endpoints } from "./endpoints.ts";
import { HeadSubscription } from "./head-subscription.ts";
import {
  firstParam,
  isBlockLogsRequest,
  isFound,
  type JsonRpcRequest,
  lastRequestedBlock,
  requestedHash,
  wantsTransactions,
} from "./json-rpc.ts";
import { MissedLogs } from "./missed-logs.ts";
import { RangeLogs } from "./range-logs.ts";
import { createReadClient } from "./read-client.ts";
import { isBlock, RecentBlocks, type RpcBlock } from "./recent-blocks.ts";
import { isUnknownBlock, MissingLogsError, OrphanedBlockError } from "./rpc-errors.ts";

/** Attempts to find a block: a node may learn of it later than the node of the same provider that announced it. */
const UNKNOWN_BLOCK_ATTEMPTS = 4;
const UNKNOWN_BLOCK_WAIT_MS = 400;

type Options = {
  chainId: number;
  urls: readonly string[];
  /** Those of the URLs that lack old logs. */
  recentOnlyUrls?: readonly string[] | undefined;
  /** The number of blocks in one request for logs to begin with. */
  logsRange?: number | undefined;
  /** Blocks whose logs are taken from their receipts too. */
  provenRanges?: readonly BlockRange[] | undefined;
  /** Announces new blocks. */
  wsUrl?: string | null;
  /** The contracts whose logs must be complete. */
  registries?: readonly Address[];
  unknownBlockWaitMs?: number;
};

/**
 * Sends all requests to a chain. It fails over between endpoints, never uses an endpoint on another chain, and verifies
 * that logs are complete: a missing log would be a lost change.
 */
export class ChainRpc {
  readonly transport: Transport;
  readonly #endpoints: Endpoints;
  readonly #recent = new RecentBlocks();
  readonly #head: ChainHead;
  readonly #blockLogs: BlockLogs;
  readonly #rangeLogs: RangeLogs;
  readonly #missedLogs: MissedLogs;
  readonly #unknownBlockWaitMs: number;

  constructor(options: Options) {
    const { chainId, urls, wsUrl, registries = [], unknownBlockWaitMs = UNKNOWN_BLOCK_WAIT_MS } = options;
    this.transport = custom({ request: (request: JsonRpcRequest) => this.request(request) });
    this.#endpoints = new Endpoints(chainId, urls, options.recentOnlyUrls, options.logsRange);
    this.#head = new ChainHead(this.#recent, wsUrl ? new HeadSubscription(wsUrl) : null);
    this.#blockLogs = new BlockLogs(this.#endpoints, this.#recent, registries);
    this.#rangeLogs = new RangeLogs(chainId, this.#endpoints, registries, options.provenRanges);
    this.#missedLogs = new MissedLogs(registries, this.#rangeLogs, this.#recent);
    this.#unknownBlockWaitMs = unknownBlockWaitMs;
  }

  /** Finds a block, indexed live, with logs that Ponder has not received because of a wrong bloom filter. */
  findMissedBlock(first: bigint, newest: Hash): RpcBlock | undefined {
    return this.#missedLogs.find(first, newest);
  }

  async request(request: JsonRpcRequest): Promise<unknown> {
    const hash = requestedHash(request);
    if (hash !== undefined) return this.#requestByHash(request, hash);
    if (lastRequestedBlock(request) !== undefined) return this.#requestRange(request);
    if (request.method !== "eth_getBlockByNumber") return this.#endpoints.request(request);
    const block = await this.#requestByNumber(request);
    return isBlock(block) ? this.#missedLogs.correctBloom(block) : block;
  }

  async #requestRange(request: JsonRpcRequest): Promise<unknown> {
    const logs = await this.#rangeLogs.fetch(firstParam(request));
    this.#missedLogs.recordDelivered(logs);
    return logs;
  }

  async #requestByNumber(request: JsonRpcRequest): Promise<unknown> {
    const fetch = (isAcceptable = isFound, options = {}) => this.#requestKnownNumber(request, isAcceptable, options);
    if (firstParam(request) !== "latest") return fetch();
    // Ponder polls for the newest block with its transactions. A header, as Ponder requests at its start, is no answer.
    const newest = wantsTransactions(request) ? await this.#head.fetch(fetch) : await fetch();
    if (isBlock(newest)) await this.#missedLogs.check(newest);
    return newest;
  }

  /** Retries a block that another node has announced already. Without it, Ponder discards all that it fetched with it. */
  async #requestKnownNumber(...parameters: Parameters<Endpoints["request"]>): Promise<unknown> {
    for (let attempt = 1; ; attempt++) {
      const block = await this.#endpoints.request(...parameters);
      this.#recent.add(block);
      if (block !== null || attempt === UNKNOWN_BLOCK_ATTEMPTS) return block;
      await sleep(this.#unknownBlockWaitMs);
    }
  }

  async #requestByHash(request: JsonRpcRequest, hash: Hash): Promise<unknown> {
    for (let attempt = 1; ; attempt++) {
      const isLast = attempt === UNKNOWN_BLOCK_ATTEMPTS;
      try {
        const result = await this.#requestByHashOnce(request, hash);
        if (result !== null || isLast) return result;
      } catch (error) {
        if (error instanceof MissingLogsError ? isLast : !isUnknownBlock(error)) throw error;
        if (isLast) throw new OrphanedBlockError(hash, error);
      }
      await sleep(this.#unknownBlockWaitMs);
    }
  }

  async #requestByHashOnce(request: JsonRpcRequest, hash: Hash): Promise<unknown> {
    if (isBlockLogsRequest(request)) {
      const logs = await this.#blockLogs.fetch(request, hash);
      this.#missedLogs.recordDelivered(logs);
      if (logs.length === 0) this.#missedLogs.recordEmpty(hash);
      return logs;
    }
    // Ponder requests headers to find where a fork begins. Nodes forget a fork that is gone by then, and Ponder would
    // lose track of the blocks that it has to revert.
    return (await this.#endpoints.request(request, isFound)) ?? this.#recent.answer(request) ?? null;
  }
}

/** Creates a client that reads a chain through its endpoints. */
export const createChainClient = (chainId: number, urls: readonly string[]): Client =>
  createReadClient(new ChainRpc({ chainId, urls }).transport);
