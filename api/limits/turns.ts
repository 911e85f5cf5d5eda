/** Gives a place back. Calling it again does nothing. */
export type Release = () => void;

type Waiting = { grant: (release: Release) => void; timer: NodeJS.Timeout };

type Caller = { inFlight: number; maxInFlight: number; waiting: Waiting[] };

type Options = {
  /** Places for all callers. */
  places: number;
  /** Maximum requests of one caller that wait for a place, and for how long. */
  maxWaiting: number;
  maxWaitMs: number;
  /** Creates the error for a request that gets no place. */
  refuse: () => Error;
  /** Counts the requests that wait, for metrics. */
  load?: { waiting: number };
};

/**
 * Places that callers share. Each caller has a maximum, so one alone cannot hold all places. When no place is free,
 * callers are served in turn, one request each: many requests of one caller wait for each other, not others for them.
 */
export class Turns {
  readonly #options: Options;
  readonly #load: { waiting: number };
  #free: number;
  readonly #callers = new Map<string, Caller>();
  /** Callers with waiting requests, the next one first. */
  readonly #queue = new Map<string, Caller>();

  constructor(options: Options) {
    this.#options = options;
    this.#load = options.load ?? { waiting: 0 };
    this.#free = options.places;
  }

  /**
   * Takes a place: at once if one is free and the caller has fewer than its maximum. Throws if too many of the caller's
   * requests are waiting, or after the maximum wait.
   * @param maxInFlight - the caller's maximum, from now on
   */
  take(name: string, maxInFlight: number): Release | Promise<Release> {
    const caller = this.#callers.get(name) ?? { inFlight: 0, maxInFlight, waiting: [] };
    caller.maxInFlight = maxInFlight;
    if (this.#free > 0 && caller.inFlight < maxInFlight) return this.#hold(name, caller);
    if (caller.waiting.length >= this.#options.maxWaiting) throw this.#options.refuse();
    this.#callers.set(name, caller);
    this.#queue.set(name, caller);
    return new Promise((grant, reject) => {
      const timer = setTimeout(() => {
        caller.waiting.splice(caller.waiting.indexOf(waiting), 1);
        this.#load.waiting--;
        this.#forgetIdle(name, caller);
        reject(this.#options.refuse());
      }, this.#options.maxWaitMs);
      const waiting = { grant, timer };
      caller.waiting.push(waiting);
      this.#load.waiting++;
    });
  }

  #hold(name: string, caller: Caller): Release {
    this.#free--;
    caller.inFlight++;
    this.#callers.set(name, caller);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#free++;
      caller.inFlight--;
      this.#serveNext();
      this.#forgetIdle(name, caller);
    };
  }

  #serveNext(): void {
    for (const [name, caller] of this.#queue) {
      if (caller.inFlight >= caller.maxInFlight) continue;
      const next = caller.waiting.shift();
      // Behind the others.
      this.#queue.delete(name);
      if (caller.waiting.length > 0) this.#queue.set(name, caller);
      if (!next) continue;
      clearTimeout(next.timer);
      this.#load.waiting--;
      next.grant(this.#hold(name, caller));
      return;
    }
  }

  #forgetIdle(name: string, { inFlight, waiting }: Caller): void {
    if (waiting.length > 0) return;
    this.#queue.delete(name);
    if (inFlight === 0) this.#callers.delete(name);
  }
}
