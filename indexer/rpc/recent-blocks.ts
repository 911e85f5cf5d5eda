import type { Hash, Hex } from "viem";
import { BoundedMap } from "../../process/bounded.ts";
import type { JsonRpcRequest } from "./json-rpc.ts";

/** More than the longest reorg that Ponder can revert: its finality is 240 blocks at most. */
export const MAX_RECENT_BLOCKS = 512;

/** A block as a node returns it, with the fields that this folder reads. */
export type RpcBlock = {
  hash: Hash;
  parentHash: Hash;
  number: Hex;
  timestamp: Hex;
  logsBloom: Hex;
  transactions?: readonly unknown[];
};

export const isBlock = (value: unknown): value is RpcBlock =>
  typeof value === "object" && value !== null && "hash" in value && typeof value.hash === "string";

/** The headers of the last minutes' blocks, including blocks that a reorg has removed from the chain. */
export class RecentBlocks {
  readonly #blocks = new BoundedMap<Hash, { header: RpcBlock; transactions: number }>(MAX_RECENT_BLOCKS);

  add(block: unknown) {
    if (!isBlock(block) || this.#blocks.has(block.hash)) return;
    const { transactions = [] } = block;
    this.#blocks.set(block.hash, { header: { ...block, transactions: [] }, transactions: transactions.length });
  }

  get(hash: Hash): RpcBlock | undefined {
    return this.#blocks.get(hash)?.header;
  }

  /** @returns undefined for a block that is not recent */
  countTransactions(hash: Hash): number | undefined {
    return this.#blocks.get(hash)?.transactions;
  }

  /** True if a block is an ancestor of another, as far as both are recent. */
  isAncestor(hash: Hash, descendant: RpcBlock): boolean {
    const wanted = this.get(hash);
    let block: RpcBlock | undefined = descendant;
    while (wanted && block && Number(block.number) > Number(wanted.number)) block = this.get(block.parentHash);
    return block?.hash === hash;
  }

  /** Lists a block and its ancestors, as far as they are recent, the newest first. */
  listAncestors(block: RpcBlock, max: number): RpcBlock[] {
    const blocks: RpcBlock[] = [];
    let next: RpcBlock | undefined = block;
    while (next && blocks.length < max) {
      blocks.push(next);
      next = this.get(next.parentHash);
    }
    return blocks;
  }

  /** Answers a request for a header by its hash. */
  answer({ method, params }: JsonRpcRequest): RpcBlock | undefined {
    if (method !== "eth_getBlockByHash" || !Array.isArray(params) || params[1] !== false) return undefined;
    return this.get(params[0]);
  }
}
