import { type Answers, answersOfState } from "../test/support/answers.ts";
import type { State } from "../test/support/index-state.ts";
import type { RandomChain } from "../test/support/random-chain.ts";

/** What the registries listed at every block that there was, also at those that the chains have replaced since. */
export class Truth {
  readonly #states = new Map<string, { state: State; chain: RandomChain }>();
  readonly #answers = new Map<string, Answers>();

  /** Reads it at a chain's newest block, whose number it returns. */
  async note(chain: RandomChain): Promise<bigint> {
    const { number, timestamp } = await chain.local.client.getBlock();
    const state = await chain.readState(number);
    this.#states.set(keyOf(chain.local.chainId, number, timestamp), { state, chain });
    return number;
  }

  /** The answers at a block, which its time tells apart from all others; undefined if there never was such a block. */
  find(chainId: number, number: bigint, timestamp: bigint): Answers | undefined {
    const key = keyOf(chainId, number, timestamp);
    const noted = this.#states.get(key);
    if (!noted) return undefined;
    const answers = this.#answers.get(key) ?? answersOfState(noted.state, noted.chain.world);
    this.#answers.set(key, answers);
    return answers;
  }
}

const keyOf = (chainId: number, number: bigint, timestamp: bigint) => `${chainId} ${number} ${timestamp}`;
