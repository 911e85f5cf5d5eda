import { type Answers, deriveAnswers } from "../../support/answers.ts";
import type { State } from "../../support/index-state.ts";
import type { RandomChain } from "../../support/random-chain.ts";

/** Records the registries' state at every block, including blocks that the chains have replaced since. */
export class ExpectedAnswers {
  readonly #states = new Map<string, { state: State; chain: RandomChain }>();
  readonly #answers = new Map<string, Answers>();

  /** Records the state at a chain's newest block, and returns its number. */
  async record(chain: RandomChain): Promise<bigint> {
    const { number, timestamp } = await chain.local.client.getBlock();
    const state = await chain.readState(number);
    this.#states.set(keyOf(chain.local.chainId, number, timestamp), { state, chain });
    return number;
  }

  /** Finds the answers at a block, identified by number and timestamp. Undefined if the block never existed. */
  find(chainId: number, number: bigint, timestamp: bigint): Answers | undefined {
    const key = keyOf(chainId, number, timestamp);
    const recorded = this.#states.get(key);
    if (!recorded) return undefined;
    const answers = this.#answers.get(key) ?? deriveAnswers(recorded.state, recorded.chain.world);
    this.#answers.set(key, answers);
    return answers;
  }
}

const keyOf = (chainId: number, number: bigint, timestamp: bigint) => `${chainId} ${number} ${timestamp}`;
