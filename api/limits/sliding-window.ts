import { Problem } from "../problem.ts";

export type Limit = { requests: number; windowMs: number };

export type Decision = {
  isAdmitted: boolean;
  /** Requests that would still be admitted now. */
  remaining: number;
  /** Time until an admission leaves the window and makes room for another, or until rejected requests can be admitted. */
  resetMs: number;
};

/** Many times what one process can answer within ten seconds. A million clients with a request each take some 200 MB. */
const MAX_ADMISSIONS = 2 ** 21;
const MAX_CLIENTS = 2 ** 20;

/** There are too many clients to count. To forget one would admit it more often than the limit allows. */
export class WindowFullError extends Problem {
  override name = "WindowFullError";

  constructor() {
    const detail = "Too many clients for the rate limit to count. Try again in a moment, or with an API key.";
    super("overloaded", detail, { headers: { "Retry-After": "2" } });
  }
}

/** Clients with the times of their admissions, oldest first. */
class Generation {
  readonly clients = new Map<string, number[]>();
  admissions = 0;
  newestAt = Number.NEGATIVE_INFINITY;

  constructor(readonly startedAt = Number.NEGATIVE_INFINITY) {}
}

/**
 * An exact sliding window. It never admits a client more often than the limit in any span of the window's length, and
 * never rejects a client that was admitted less often. It remembers every admission as long as it counts.
 *
 * A client moves to the current generation with each admission. The previous one is forgotten as a whole, when all of
 * its admissions have expired: no request pays for a crowd that has left.
 */
export class SlidingWindow {
  readonly limit: Limit;
  readonly #now: () => number;
  /** No older than the window. */
  #current = new Generation();
  #previous = new Generation();

  /** @param now - a monotonic clock in milliseconds */
  constructor(limit: Limit, now: () => number = () => performance.now()) {
    this.limit = limit;
    this.#now = now;
  }

  /**
   * Admits or rejects requests of a client, all or none. Rejected requests do not count.
   * @param count - at most the limit
   * @param retried - number of requests that will be sent again if these are rejected
   */
  take(name: string, count = 1, retried = count): Decision {
    const now = this.#now();
    const times = this.#find(name, now);
    if (times.length > 0 && times.length + count > this.limit.requests) {
      return { isAdmitted: false, ...this.#describe(times, now, retried) };
    }
    if (!this.#hasRoom(times, count)) throw new WindowFullError();
    return { isAdmitted: true, ...this.#describe(this.#admit(name, times, now, count), now, 1) };
  }

  /** Records requests that the shared window admitted, if there is room. */
  record(name: string, count = 1): void {
    const now = this.#now();
    const times = this.#find(name, now);
    if (this.#hasRoom(times, count)) this.#admit(name, times, now, count);
  }

  /** Takes back a client's newest admission. */
  giveBack(name: string): void {
    const generation = this.#generationOf(name);
    const times = generation.clients.get(name) ?? [];
    if (times.pop() === undefined) return;
    generation.admissions--;
    if (times.length === 0) generation.clients.delete(name);
  }

  /** Frees the memory of expired admissions, as every request does. */
  release(): void {
    this.#forgetExpired(this.#now());
  }

  /** Number of remembered clients. */
  get size(): number {
    this.release();
    return this.#current.clients.size + this.#previous.clients.size;
  }

  /** Describes the remaining requests, and the time until `wanted` more are admitted together. */
  #describe(times: readonly number[], now: number, wanted: number): Omit<Decision, "isAdmitted"> {
    const { requests, windowMs } = this.limit;
    // All admissions above the limit have to leave the window first. record() may exceed it too.
    const next = times[Math.max(0, times.length + wanted - requests - 1)] ?? now;
    return { remaining: Math.max(0, requests - times.length), resetMs: windowMs - (now - next) };
  }

  /** Finds the times of a client's admissions in the window. */
  #find(name: string, now: number): number[] {
    this.#forgetExpired(now);
    const generation = this.#generationOf(name);
    const times = generation.clients.get(name);
    if (!times) return [];
    const counted = times.findIndex((time) => !this.#hasExpired(time, now));
    const expired = counted === -1 ? times.length : counted;
    if (expired > 0) times.splice(0, expired);
    generation.admissions -= expired;
    if (times.length === 0) generation.clients.delete(name);
    return times;
  }

  #generationOf(name: string): Generation {
    return this.#current.clients.has(name) ? this.#current : this.#previous;
  }

  #hasExpired(time: number, now: number): boolean {
    return now - time >= this.limit.windowMs;
  }

  #forgetExpired(now: number): void {
    if (this.#hasExpired(this.#current.startedAt, now)) {
      this.#previous = this.#current;
      this.#current = new Generation(now);
    }
    if (this.#previous.clients.size > 0 && this.#hasExpired(this.#previous.newestAt, now)) {
      this.#previous = new Generation();
    }
  }

  #hasRoom(times: readonly number[], count: number): boolean {
    const [current, previous] = [this.#current, this.#previous];
    const isFull = current.clients.size + previous.clients.size >= MAX_CLIENTS;
    return current.admissions + previous.admissions + count <= MAX_ADMISSIONS && (times.length > 0 || !isFull);
  }

  /** @returns the times of the client's admissions */
  #admit(name: string, times: number[], now: number, count: number): number[] {
    const current = this.#current;
    if (this.#previous.clients.delete(name)) {
      this.#previous.admissions -= times.length;
      current.admissions += times.length;
    }
    const added = new Array<number>(count).fill(now);
    // push() reserves room for 16 more: most clients of a crowd send one request.
    const all = times.length === 0 ? added : times;
    if (all === times) times.push(...added);
    current.clients.set(name, all);
    current.admissions += count;
    current.newestAt = now;
    return all;
  }
}
