import { setTimeout as sleep } from "node:timers/promises";
import { type Block, BlockNotFoundError, type Client } from "viem";
import { getBlock } from "viem/actions";
import type { IndexPlan } from "./plan.ts";
import { createChainClient } from "./rpc/chain-rpc.ts";
import type { Head, Heads } from "./shards/heads.ts";

/** An endpoint that takes longer is ignored. */
const TIMEOUT_MS = 10_000;

type MinedBlock = Block<bigint, false, "latest">;

/** Fetches the newest blocks of chains from all their endpoints: an endpoint that is stuck repeats an old block. */
export class HeadFetcher {
  /** One client per endpoint, by chain. They are kept, so that each verifies its chain id once. */
  readonly #clients: ReadonlyMap<number, readonly Client[]>;

  constructor({ chains }: IndexPlan) {
    this.#clients = new Map(
      chains.map(({ chainId, rpcUrls }) => [chainId, rpcUrls.map((url) => createChainClient(chainId, [url]))]),
    );
  }

  /** Fetches the newest block of each chain. Throws if a chain is unreachable. */
  async fetchAll(): Promise<Heads> {
    const chainIds = [...this.#clients.keys()];
    return new Map(await Promise.all(chainIds.map(async (chainId) => [chainId, await this.fetch(chainId)] as const)));
  }

  /** Fetches the newest block that any endpoint of a chain has. Throws if none answers. */
  async fetch(chainId: number): Promise<Head> {
    const fetchedAt = performance.now();
    const blocks = await this.fetchBlocks(chainId);
    const { number, timestamp } = blocks.reduce((a, b) => (b.number > a.number ? b : a));
    return { number, timestamp, fetchedAt };
  }

  /** Fetches a block, or the newest one, from each endpoint that has it. Throws if none answers. */
  async fetchBlocks(chainId: number, blockNumber?: bigint): Promise<MinedBlock[]> {
    const clients = this.#clients.get(chainId) ?? [];
    const blocks = await Promise.allSettled(
      clients.map((client) =>
        Promise.race([getBlock(client, blockNumber === undefined ? {} : { blockNumber }), timeOut(chainId)]),
      ),
    );
    const isAnswer = (block: PromiseSettledResult<MinedBlock>) =>
      block.status === "fulfilled" || block.reason instanceof BlockNotFoundError;
    if (!blocks.some(isAnswer)) throw blocks.find((block) => block.status === "rejected")?.reason;
    return blocks.flatMap((block) => (block.status === "fulfilled" ? [block.value] : []));
  }
}

const timeOut = async (chainId: number): Promise<never> => {
  await sleep(TIMEOUT_MS, undefined, { ref: false });
  throw new Error(`An endpoint of chain ${chainId} did not return the newest block within ${TIMEOUT_MS / 1000} s.`);
};
