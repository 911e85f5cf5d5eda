import { type Address, type Hash, isHex, numberToHex } from "viem";
import { describeError } from "../../process/program.ts";
import type { BlockRange } from "../plan.ts";
import type { Endpoints } from "./endpoints.ts";
import { isFound, type JsonRpcRequest, parseLogs, type RangeFilter, type RpcLog } from "./json-rpc.ts";
import { mayContain } from "./logs-bloom.ts";
import { mapConcurrently } from "./map-concurrently.ts";
import type { RpcBlock } from "./recent-blocks.ts";
import { repeatRequest } from "./repeat-request.ts";
import { isUnreachable, MissingLogsError } from "./rpc-errors.ts";

/** Blocks to read at a time, and receipts of each. */
const MAX_IN_FLIGHT = 16;

type Receipt = { blockHash: Hash; logs: unknown };

/**
 * Fetches logs from the receipts of blocks, for ranges in which no log index is believed: nodes store receipts apart from
 * it. A block is skipped if its bloom filter excludes the wanted addresses.
 */
export class ReceiptLogs {
  readonly #endpoints: Endpoints;
  readonly #ranges: readonly BlockRange[];
  #hasWarned = false;

  constructor(endpoints: Endpoints, ranges: readonly BlockRange[]) {
    this.#endpoints = endpoints;
    this.#ranges = ranges;
  }

  /** Fetches all logs of the blocks that may have one of the wanted addresses. */
  async fetch({ address = [], fromBlock, toBlock }: RangeFilter): Promise<RpcLog[]> {
    const blocks = this.#listBlocks(Number(fromBlock), Number(toBlock));
    const logs = await mapConcurrently(blocks, MAX_IN_FLIGHT, (block) => this.#tryBlock(block, [address].flat()));
    return logs.flat();
  }

  #listBlocks(from: number, to: number): number[] {
    const blocks = this.#ranges.flatMap(({ first, last }) => {
      const start = Math.max(first, from);
      return Array.from({ length: Math.max(0, Math.min(last, to) - start + 1) }, (_, index) => start + index);
    });
    return [...new Set(blocks)];
  }

  /**
   * Returns no logs of a block whose receipts no node has: the comparison with the registries decides whether logs are
   * missing, and the other chains do not wait for them.
   */
  async #tryBlock(number: number, addresses: readonly Address[]): Promise<RpcLog[]> {
    try {
      return await this.#fetchBlock(number, addresses);
    } catch (error) {
      if (isUnreachable(error)) throw error;
      if (!this.#hasWarned) console.warn(`Logs cannot be proven by receipts: ${describeError(error)}`);
      this.#hasWarned = true;
      return [];
    }
  }

  async #fetchBlock(number: number, addresses: readonly Address[]): Promise<RpcLog[]> {
    const block = await this.#request<RpcBlock>({
      method: "eth_getBlockByNumber",
      params: [numberToHex(number), false],
    });
    if (!block) throw new Error(`No node has block ${number}, whose receipts have to be read.`);
    if (!mayHaveLogs(block, addresses)) return [];
    const receipts = await this.#fetchReceipts(block);
    return receipts.flatMap(({ logs }) => parseLogs(logs));
  }

  async #fetchReceipts({ hash, transactions = [] }: RpcBlock): Promise<readonly Receipt[]> {
    const isComplete = (result: unknown): result is Receipt[] =>
      Array.isArray(result) && result.length === transactions.length;
    const request = { method: "eth_getBlockReceipts", params: [hash] };
    // Not every node has this method.
    const receipts = await this.#endpoints.request(request, isComplete).catch(() => null);
    if (isComplete(receipts)) return receipts;
    return mapConcurrently(transactions, MAX_IN_FLIGHT, async (transaction) => {
      const receipt = await this.#request<Receipt>({ method: "eth_getTransactionReceipt", params: [transaction] });
      // After a reorg, the transaction may be in another block.
      if (receipt?.blockHash !== hash) throw new MissingLogsError(hash);
      return receipt;
    });
  }

  /** Asks each endpoint, several times: with one request failing, those of the whole range would be sent again. */
  #request<Result>(request: JsonRpcRequest): Promise<Result | null> {
    const sender = { request: (body: JsonRpcRequest) => this.#endpoints.request(body, isFound) };
    return repeatRequest<Result>(sender, request);
  }
}

/** Some chains maintain no filter: all its bits are zeros, or ones. */
const mayHaveLogs = ({ logsBloom, transactions = [] }: RpcBlock, addresses: readonly Address[]): boolean => {
  if (transactions.length === 0) return false;
  if (addresses.length === 0 || !isHex(logsBloom) || BigInt(logsBloom) === 0n) return true;
  return addresses.some((address) => mayContain(logsBloom, address));
};
