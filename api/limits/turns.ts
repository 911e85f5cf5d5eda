/** Gives places back. Calling it again does nothing. */
export type Release = () => void;

/** A request that waits for places. */
type Waiting = { weight: number; max: number | undefined; grant: () => void };

type Caller = { held: number; waiting: Waiting[] };

type Options = {
  /** Places for all callers. */
  places: number;
  /** Maximum requests of one caller that wait, and for how long. */
  maxWaiting: number;
  maxWaitMs: number;
  /** Creates the error for a request that gets no place. */
  refuse: () => Error;
  /** Counts the requests that wait, for metrics. */
  load?: { waiting: number };
};

/** A caller holds at most this part of the places that are free. */
const SHARE = 1 / 16;

/**
 * A fair semaphore. What a caller may hold depends on what is free, so that there is nearly always a place for another
 * one: of 512 places, a caller alone holds 30, and each of twenty holds 14. A flood waits for itself. When places are
 * short, callers are served in turn, one request each.
 */
export class Turns {
  readonly #options: Options;
  readonly #load: { waiting: number };
  #free: number;
  /** Callers with requests that hold places or wait. The one that was served last is the last. */
  readonly #callers = new Map<string, Caller>();

  constructor(options: Options) {
    this.#options = options;
    this.#load = options.load ?? { waiting: 0 };
    this.#free = options.places;
  }

  /**
   * Waits for places. Rejects if too many of the caller's requests wait already, or after the maximum wait.
   * @param weight - places that the request takes
   * @param max - the caller's maximum of places, instead of a share of those that are free
   */
  take(name: string, weight = 1, max?: number): Release | Promise<Release> {
    const caller = this.#callers.get(name) ?? { held: 0, waiting: [] };
    this.#callers.set(name, caller);
    // While half of the places are free, others wait only for their own share.
    const isAtOnce = this.#free > this.#options.places / 2 && caller.waiting.length === 0;
    if (isAtOnce && this.#hasShare(caller, { weight, max })) return this.#hold(name, caller, weight);
    return this.#wait(name, caller, weight, max);
  }

  async #wait(name: string, caller: Caller, weight: number, max: number | undefined): Promise<Release> {
    const { maxWaiting, maxWaitMs, refuse } = this.#options;
    if (caller.waiting.length >= maxWaiting) throw refuse();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#leave(caller, waiting);
        this.#forgetIdle(name, caller);
        // It may have kept places free for itself.
        this.#serve();
        reject(refuse());
      }, maxWaitMs);
      const grant = () => {
        clearTimeout(timer);
        this.#leave(caller, waiting);
        resolve(this.#hold(name, caller, weight));
      };
      const waiting = { weight, max, grant };
      caller.waiting.push(waiting);
      this.#load.waiting++;
      this.#serve();
    });
  }

  #leave(caller: Caller, waiting: Waiting): void {
    caller.waiting.splice(caller.waiting.indexOf(waiting), 1);
    this.#load.waiting--;
  }

  #hold(name: string, caller: Caller, weight: number): Release {
    this.#free -= weight;
    caller.held += weight;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#free += weight;
      caller.held -= weight;
      this.#forgetIdle(name, caller);
      if (this.#load.waiting > 0) this.#serve();
    };
  }

  /** Serves the next request of each caller in turn, as long as there are places. */
  #serve(): void {
    for (const [name, caller] of this.#callers) {
      if (this.#free === 0) return;
      const [next] = caller.waiting;
      if (!next || !this.#hasShare(caller, next)) continue;
      // Keep what is free for it: smaller requests would overtake it forever.
      if (next.weight > this.#free) return;
      next.grant();
      // Behind the others.
      this.#callers.delete(name);
      this.#callers.set(name, caller);
    }
  }

  #hasShare({ held }: Caller, { weight, max }: Pick<Waiting, "weight" | "max">): boolean {
    return held === 0 || held + weight <= (max ?? (this.#free - weight) * SHARE);
  }

  #forgetIdle(name: string, { held, waiting }: Caller): void {
    if (held === 0 && waiting.length === 0) this.#callers.delete(name);
  }
}
