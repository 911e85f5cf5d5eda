import { type Address, type Hash, type Hex, isHex } from "viem";
import { BoundedMap } from "../../process/bounded.ts";
import type { Endpoints } from "./endpoints.ts";
import { includesAddress, isFound, type JsonRpcRequest, logKey, parseLogs, type RpcLog } from "./json-rpc.ts";
import { coversBloom, isUsable } from "./logs-bloom.ts";
import { isBlock, MAX_RECENT_BLOCKS, type RecentBlocks } from "./recent-blocks.ts";
import { isInternal, isRefusedRange, isUnknownBlock, isUnreachable, MissingLogsError } from "./rpc-errors.ts";

/** Time to wait for logs that a bloom filter indicates, where no node has receipts to decide. */
const MAX_WAIT_MS = 60_000;

/** Fetches the logs of single blocks, and verifies that none is missing. */
export class BlockLogs {
  readonly #endpoints: Endpoints;
  readonly #recent: RecentBlocks;
  readonly #registries: readonly Address[];
  /** The time when logs of a block were first missing. */
  readonly #missingSince = new BoundedMap<Hash, number>(MAX_RECENT_BLOCKS);

  /** @param registries requested by block number too: a bloom filter cannot tell several of their logs from one */
  constructor(endpoints: Endpoints, recent: RecentBlocks, registries: readonly Address[]) {
    this.#endpoints = endpoints;
    this.#recent = recent;
    this.#registries = registries;
  }

  async fetch(request: JsonRpcRequest, hash: Hash): Promise<RpcLog[]> {
    const bloom = await this.#fetchBloom(hash);
    let complete: unknown;
    const isComplete = (result: unknown) => {
      if (coversBloom(parseLogs(result), bloom)) complete = result;
      return complete === result;
    };
    const result = await this.#endpoints.request(request, isComplete).catch((error) => {
      // The block may have more logs than the endpoint returns at once. The registries' logs are few.
      if (this.#registries.length === 0 || isUnknownBlock(error) || !isRefusedRange(error)) throw error;
      return this.#fetchByAddress(hash);
    });
    const logs = parseLogs(result);
    const isCovered = result === complete && isUsable(bloom);
    const isVerified = isCovered
      ? await this.#coversRegistries(logs, hash)
      : await this.#coversReceipts(logs, hash, bloom);
    if (!isVerified) throw new MissingLogsError(hash);
    this.#missingSince.delete(hash);
    return logs;
  }

  #fetchByAddress(blockHash: Hash): Promise<unknown> {
    return this.#endpoints.request({ method: "eth_getLogs", params: [{ blockHash, address: this.#registries }] });
  }

  async #fetchBloom(hash: Hash): Promise<Hex> {
    const request = { method: "eth_getBlockByHash", params: [hash, false] };
    const block = this.#recent.get(hash) ?? (await this.#endpoints.request(request, isFound));
    this.#recent.add(block);
    // No node has the block: the request for its logs fails.
    return isBlock(block) && isHex(block.logsBloom) ? block.logsBloom : "0x0";
  }

  /** On some chains a bloom filter has more than the block's logs, or nothing at all. The receipts decide. */
  async #coversReceipts(logs: readonly RpcLog[], hash: Hash, bloom: Hex): Promise<boolean> {
    const transactions = this.#recent.countTransactions(hash);
    const receipts = transactions === 0 ? [] : await this.#fetchReceipts(hash);
    if (!Array.isArray(receipts) || receipts.length !== transactions) {
      // Without receipts and without a filter there is nothing to wait for.
      const isFinal = (receipts === undefined && !isUsable(bloom)) || this.#hasWaited(hash);
      return isFinal && this.#coversRegistries(logs, hash);
    }
    const emitted = receipts.flatMap((receipt) => parseLogs(receipt?.logs));
    return includesLogs(
      logs,
      emitted.filter(({ address }) => this.#isRegistry(address)),
    );
  }

  /** @returns undefined if no node has the method, null after another failure: the next attempt asks again */
  async #fetchReceipts(hash: Hash): Promise<unknown> {
    try {
      return await this.#endpoints.request({ method: "eth_getBlockReceipts", params: [hash] }, isFound);
    } catch (error) {
      return isUnreachable(error) || isInternal(error) ? null : undefined;
    }
  }

  #isRegistry(address: Address): boolean {
    return this.#registries.length === 0 || includesAddress(this.#registries, address);
  }

  #hasWaited(hash: Hash): boolean {
    const since = this.#missingSince.get(hash) ?? Date.now();
    this.#missingSince.set(hash, since);
    return Date.now() - since > MAX_WAIT_MS;
  }

  async #coversRegistries(logs: readonly RpcLog[], hash: Hash): Promise<boolean> {
    const block = this.#recent.get(hash);
    if (this.#registries.length === 0 || !block?.number) return true;
    const filter = { address: this.#registries, fromBlock: block.number, toBlock: block.number };
    const byNumber = parseLogs(await this.#endpoints.request({ method: "eth_getLogs", params: [filter] }));
    // After a reorg the number is another block's.
    return includesLogs(
      logs,
      byNumber.filter(({ blockHash }) => blockHash === hash),
    );
  }
}

const includesLogs = (logs: readonly RpcLog[], others: readonly RpcLog[]): boolean => {
  const keys = new Set(logs.map(logKey));
  return others.every((log) => keys.has(logKey(log)));
};
