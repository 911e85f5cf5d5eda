import type { Hex } from "viem";
import type { LocalChain } from "../../sandbox/chain.ts";
import type { Transaction } from "./world.ts";

/** As many as the longest reorg has, on chains that Ponder takes for final after 30. */
const KEPT = 30;

/** A local chain that can take back its newest blocks. */
export class ReorgChain {
  readonly local: LocalChain;
  /** A snapshot before each of the newest blocks, the oldest first. */
  #snapshots: Hex[] = [];
  #timestamp = 0;

  constructor(local: LocalChain) {
    this.local = local;
  }

  /** Mines one block with these transactions. Throws if one of them fails. */
  async mine(transactions: readonly Transaction[] = []): Promise<void> {
    const { client } = this.local;
    this.#snapshots.push(await client.snapshot());
    this.#snapshots = this.#snapshots.slice(-KEPT);

    const hashes: Hex[] = [];
    for (const { from, to, data } of transactions) {
      hashes.push(
        await client.sendTransaction({ account: from, chain: null, to, data, gas: 8_000_000n, gasPrice: 0n }),
      );
    }
    // No two blocks are alike, also not those that take each other's place.
    const { timestamp } = await client.getBlock();
    this.#timestamp = Math.max(this.#timestamp + 1, Number(timestamp) + 1, Math.floor(Date.now() / 1000));
    await client.setNextBlockTimestamp({ timestamp: BigInt(this.#timestamp) });
    await client.mine({ blocks: 1 });

    for (const hash of hashes) {
      const { status } = await client.getTransactionReceipt({ hash });
      if (status !== "success") throw new Error(`Transaction ${hash} failed.`);
    }
  }

  /** Takes back the newest blocks. What replaces them is for the caller to mine. */
  async takeBack(depth: number): Promise<void> {
    const snapshot = this.#snapshots.at(-depth);
    if (!snapshot) throw new Error(`There are no ${depth} blocks to take back.`);
    await this.local.client.revert({ id: snapshot });
    this.#snapshots = this.#snapshots.slice(0, -depth);
  }
}
