import type { Heads } from "./shards/heads.ts";
import type { IndexProgress } from "./shards/progress.ts";

/** Restarts for a chain until its index moves again. Each one interrupts the other chains too. */
export const MAX_RESTARTS = 5;

type ChainState = {
  reached: number;
  /** When the index reached that block, by `performance.now()`. */
  since: number;
  /** The highest block ever reached: after a restart Ponder returns to an earlier one. */
  furthest: number;
  restarts: number;
};

/** A chain whose index does not move, and the restarts since it moved last. */
export type StalledChain = { chainId: number; reached: number; restarts: number };

/** Finds chains whose index does not move although the chain has newer blocks. */
export class StallWatch {
  readonly #timeoutMs: number;
  readonly #chains = new Map<number, ChainState>();

  /** @param timeoutMs time without progress before a restart. It doubles with each restart that does not help. */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** Begins a run of Ponder. */
  startRun(now: number) {
    for (const state of this.#chains.values()) state.since = now;
  }

  /** @returns a chain for which Ponder has to be restarted */
  findStalled(progress: readonly IndexProgress[], heads: Heads, now: number): StalledChain | undefined {
    for (const { chainId, reached } of progress) {
      const state = this.#record(chainId, reached, now);
      const head = heads.get(chainId);
      if (!head || head.number <= reached || state.restarts === MAX_RESTARTS) continue;
      // An older head does not count: a restart does not help a chain whose endpoints are down.
      if (head.fetchedAt - state.since < this.#timeoutMs * 2 ** state.restarts) continue;
      state.restarts++;
      return { chainId, reached, restarts: state.restarts };
    }
    return undefined;
  }

  #record(chainId: number, reached: number, now: number): ChainState {
    const known = this.#chains.get(chainId) ?? { reached, since: now, furthest: reached, restarts: 0 };
    const since = reached === known.reached ? known.since : now;
    const restarts = reached > known.furthest ? 0 : known.restarts;
    const state = { reached, since, restarts, furthest: Math.max(reached, known.furthest) };
    this.#chains.set(chainId, state);
    return state;
  }
}
