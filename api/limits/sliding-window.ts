import { AdmissionRing } from "./admission-ring.ts";

export type Limit = { requests: number; windowMs: number };

export type Decision = {
  isAdmitted: boolean;
  /** Requests that would still be admitted now. */
  remaining: number;
  /** Time until an admission leaves the window and makes room for another, or until rejected requests can be admitted. */
  resetMs: number;
};

/** A client with admissions in the window. */
type Client = {
  name: string;
  admissions: number;
  /** Ids of its first and last admission in the ring. */
  first: number;
  last: number;
};

/** Many times what one process can answer within ten seconds. A million clients with a request each take some 200 MB. */
const MAX_ADMISSIONS = 2 ** 21;
const MAX_CLIENTS = 2 ** 20;
/** A request adds one admission and releases up to this many: no request pays for a crowd that has left. */
const RELEASED_PER_REQUEST = 3;
/** Takes some 20 ms. */
const RELEASED_PER_CALL = 50_000;

/** There are too many clients to count. To forget one would admit it more often than the limit allows. */
export class WindowFullError extends Error {
  override name = "WindowFullError";
}

/**
 * An exact sliding window. It never admits a client more often than the limit in any span of the window's length, and
 * never rejects a client that was admitted less often. It remembers every admission as long as it counts.
 */
export class SlidingWindow {
  readonly #limit: Limit;
  readonly #now: () => number;
  readonly #clients = new Map<string, Client>();
  readonly #ring = new AdmissionRing<Client>();

  /** @param now - a monotonic clock in milliseconds */
  constructor(limit: Limit, now: () => number = () => performance.now()) {
    this.#limit = limit;
    this.#now = now;
  }

  /**
   * Admits or rejects requests of a client, all or none. Rejected requests do not count.
   * @param count - at most the limit
   * @param retried - number of requests that will be sent again if these are rejected
   */
  take(name: string, count = 1, retried = count): Decision {
    const now = this.#now();
    const known = this.#find(name, now, count);
    if (known && known.admissions + count > this.#limit.requests) {
      return { isAdmitted: false, ...this.#describe(known, now, retried) };
    }
    if (!this.#hasRoom(known, count)) throw new WindowFullError();
    return { isAdmitted: true, ...this.#describe(this.#admit(known, name, now, count), now, 1) };
  }

  /** Records requests that the shared window admitted, if there is room. */
  record(name: string, count = 1): void {
    const now = this.#now();
    const known = this.#find(name, now, count);
    if (this.#hasRoom(known, count)) this.#admit(known, name, now, count);
  }

  /** Frees the memory of expired admissions. Called periodically, as requests alone free too little. */
  release(): void {
    this.#releaseOldest(this.#now(), RELEASED_PER_CALL);
    this.#ring.shrink();
  }

  /** Number of remembered clients. */
  get size(): number {
    return this.#clients.size;
  }

  /** Describes the remaining requests, and the time until `wanted` more are admitted together. */
  #describe(client: Client, now: number, wanted: number): Omit<Decision, "isAdmitted"> {
    const { requests, windowMs } = this.#limit;
    // All admissions above the limit have to leave the window first. record() may exceed it too.
    let next = client.first;
    for (let excess = client.admissions + wanted - requests; excess > 1; excess--) next = this.#ring.nextOf(next);
    return {
      remaining: Math.max(0, requests - client.admissions),
      resetMs: windowMs - (now - this.#ring.timeOf(next)),
    };
  }

  /** Finds a client that has admissions in the window. */
  #find(name: string, now: number, count: number): Client | undefined {
    this.#releaseOldest(now, RELEASED_PER_REQUEST * count);
    const client = this.#clients.get(name);
    while (client && client.admissions > 0 && this.#hasExpired(client.first, now)) this.#releaseFirst(client);
    return client && client.admissions > 0 ? client : undefined;
  }

  #hasExpired(id: number, now: number): boolean {
    return now - this.#ring.timeOf(id) >= this.#limit.windowMs;
  }

  #releaseFirst(client: Client): void {
    client.first = this.#ring.nextOf(client.first);
    client.admissions--;
    if (client.admissions === 0) this.#clients.delete(client.name);
  }

  /** Removes expired admissions of all clients from the ring, up to `max`. */
  #releaseOldest(now: number, max: number): void {
    const ring = this.#ring;
    for (let left = max; left > 0 && ring.length > 0 && this.#hasExpired(ring.oldestId, now); left--) {
      const client = ring.clientOf(ring.oldestId);
      // #find() has already released it if the client came back.
      if (client && client.admissions > 0 && client.first === ring.oldestId) this.#releaseFirst(client);
      ring.removeOldest();
    }
  }

  #hasRoom(known: Client | undefined, count: number): boolean {
    return this.#ring.length + count <= MAX_ADMISSIONS && (known !== undefined || this.#clients.size < MAX_CLIENTS);
  }

  #admit(known: Client | undefined, name: string, now: number, count: number): Client {
    const client = known ?? { name, admissions: 0, first: 0, last: 0 };
    if (!known) this.#clients.set(name, client);
    for (let index = 0; index < count; index++) {
      const id = this.#ring.push(client, now);
      if (client.admissions === 0) client.first = id;
      else this.#ring.link(client.last, id);
      client.last = id;
      client.admissions++;
    }
    return client;
  }
}
