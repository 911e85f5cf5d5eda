export type Limit = { requests: number; windowMs: number };

export type Decision = {
  isAdmitted: boolean;
  /** How many more requests would be admitted now. */
  remaining: number;
  /** When the next of the client's admissions leaves the window, and makes room for another. */
  resetMs: number;
};

/** A client that has been admitted within the window. */
type Client = {
  name: string;
  admissions: number;
  /** The places of its first and last admission. */
  first: number;
  last: number;
};

const SMALLEST_RING = 1024;
/** Many times what one process can answer within ten seconds; a million clients with a request each take some 200 MB. */
const MOST_ADMISSIONS = 2 ** 21;
const MOST_CLIENTS = 2 ** 20;
/** A request adds one admission to the ring, and takes away up to this many: none pays for a crowd that has left. */
const RELEASED_BY_REQUEST = 3;
/** What takes some 20 ms. */
const RELEASED_AT_ONCE = 50_000;

/** There are more clients at once than can be told apart. To forget one would give it more than its due. */
export class WindowFullError extends Error {
  override name = "WindowFullError";
}

/**
 * An exact sliding window: in no span of its length is a client admitted more often than the limit
 * says, and none is refused that has been admitted less often than that.
 *
 * Every admission is remembered for as long as it counts, in one ring for all clients, in the order of
 * time, and leads to the same client's next one.
 */
export class SlidingWindow {
  readonly #limit: Limit;
  readonly #now: () => number;
  readonly #clients = new Map<string, Client>();
  #times = new Float64Array(SMALLEST_RING);
  #nexts = new Int32Array(SMALLEST_RING);
  #owners: (Client | undefined)[] = new Array(SMALLEST_RING).fill(undefined);
  /** The place of the oldest admission, and how many there are. */
  #start = 0;
  #length = 0;

  /** @param now - a clock in milliseconds that never goes back */
  constructor(limit: Limit, now: () => number = () => performance.now()) {
    this.#limit = limit;
    this.#now = now;
  }

  /** Admits a client's request, or refuses it. One that is refused does not count. */
  take(name: string): Decision {
    const now = this.#now();
    const known = this.#find(name, now);
    if (known && known.admissions >= this.#limit.requests) return this.#decide(false, known, now);
    if (!this.#hasRoom(known)) throw new WindowFullError();
    return this.#decide(true, this.#admit(known, name, now), now);
  }

  #decide(isAdmitted: boolean, client: Client, now: number): Decision {
    const { requests, windowMs } = this.#limit;
    // With what others admitted there may be more than the limit: all that is too many has to go first.
    let next = client.first;
    for (let excess = client.admissions - requests; excess > 0; excess--) next = this.#nexts[next] ?? next;
    return {
      isAdmitted,
      remaining: Math.max(0, requests - client.admissions),
      resetMs: windowMs - (now - (this.#times[next] ?? now)),
    };
  }

  /** Remembers a request that was admitted by others, as long as there is room. */
  record(name: string): void {
    const now = this.#now();
    const known = this.#find(name, now);
    if (this.#hasRoom(known)) this.#admit(known, name, now);
  }

  /** Gives back what nobody needs any more, also when nobody asks. To be called from time to time. */
  release(): void {
    this.#release(this.#now(), RELEASED_AT_ONCE);
    if (this.#length === 0 && this.#times.length > SMALLEST_RING) this.#resize(SMALLEST_RING);
  }

  /** How many clients are remembered. */
  get size(): number {
    return this.#clients.size;
  }

  /** A client without the admissions that are over; undefined if none is left. */
  #find(name: string, now: number): Client | undefined {
    this.#release(now, RELEASED_BY_REQUEST);
    const client = this.#clients.get(name);
    while (client && client.admissions > 0 && this.#isOver(client.first, now)) this.#releaseFirst(client);
    return client && client.admissions > 0 ? client : undefined;
  }

  #isOver(place: number, now: number): boolean {
    return now - (this.#times[place] ?? 0) >= this.#limit.windowMs;
  }

  #releaseFirst(client: Client): void {
    client.first = this.#nexts[client.first] ?? 0;
    client.admissions--;
    if (client.admissions === 0) this.#clients.delete(client.name);
  }

  /** Takes what is over from the old end of the ring. */
  #release(now: number, most: number): void {
    for (let left = most; left > 0 && this.#length > 0 && this.#isOver(this.#start, now); left--) {
      const owner = this.#owners[this.#start];
      // Whoever asked again has given it up already.
      if (owner && owner.admissions > 0 && owner.first === this.#start) this.#releaseFirst(owner);
      this.#owners[this.#start] = undefined;
      this.#start = (this.#start + 1) % this.#times.length;
      this.#length--;
    }
  }

  #hasRoom(known: Client | undefined): boolean {
    return this.#length < MOST_ADMISSIONS && (known !== undefined || this.#clients.size < MOST_CLIENTS);
  }

  #admit(known: Client | undefined, name: string, now: number): Client {
    if (this.#length === this.#times.length) this.#resize(this.#length * 2);
    const place = (this.#start + this.#length) % this.#times.length;
    const client = known ?? { name, admissions: 0, first: place, last: place };
    if (!known) this.#clients.set(name, client);
    this.#nexts[client.last] = place;
    client.last = place;
    client.admissions++;
    this.#times[place] = now;
    this.#owners[place] = client;
    this.#length++;
    return client;
  }

  /** Moves the admissions to the beginning of another ring. */
  #resize(size: number): void {
    const [times, nexts, owners, start] = [this.#times, this.#nexts, this.#owners, this.#start];
    const moved = (place: number) => (place - start + times.length) % times.length;
    this.#times = new Float64Array(size);
    this.#nexts = new Int32Array(size);
    this.#owners = new Array(size).fill(undefined);
    this.#start = 0;
    for (let to = 0; to < this.#length; to++) {
      const from = (start + to) % times.length;
      this.#times[to] = times[from] ?? 0;
      this.#nexts[to] = moved(nexts[from] ?? 0);
      this.#owners[to] = owners[from];
    }
    for (const client of this.#clients.values()) {
      client.first = moved(client.first);
      client.last = moved(client.last);
    }
  }
}
