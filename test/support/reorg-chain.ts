import type { Hex } from "viem";
import type { LocalChain } from "../../local/chain.ts";
import type { Transaction } from "./world.ts";

/** Depth of the longest reorg, on chains whose blocks Ponder treats as final after 30 more. */
const KEPT = 30;

/** A local chain that can revert its newest blocks. */
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
    // Makes every block unique, including a replacement of another.
    const { timestamp } = await client.getBlock();
    this.#timestamp = Math.max(this.#timestamp + 1, Number(timestamp) + 1, Math.floor(Date.now() / 1000));
    await client.setNextBlockTimestamp({ timestamp: BigInt(this.#timestamp) });
    await client.mine({ blocks: 1 });

    for (const hash of hashes) {
      const { status } = await client.getTransactionReceipt({ hash });
      if (status !== "success") throw new Error(`Transaction ${hash} failed.`);
    }
  }

  /** Reverts the newest blocks. The caller mines their replacements. */
  async revertBlocks(depth: number): Promise<void> {
    const snapshot = this.#snapshots.at(-depth);
    if (!snapshot) throw new Error(`Cannot revert ${depth} blocks: only ${this.#snapshots.length} have a snapshot.`);
    await this.local.client.revert({ id: snapshot });
    this.#snapshots = this.#snapshots.slice(0, -depth);
  }
}
