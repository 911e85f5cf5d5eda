import { BoundedMap } from "../../process/bounded.ts";
import { type BatchLoad, BatchQueue } from "../database/batch-queue.ts";
import type { Database } from "../database/database.ts";
import { hashKey, isWellFormed } from "./api-key.ts";
import { findKeys, type KeyRecord } from "./api-keys.ts";

/** Lifetime of a cached lookup, and so the longest use of a revoked key. */
const CACHED_MS = 60_000;
/** Maximum cached unknown keys: anyone can make them up. */
const MAX_UNKNOWN = 10_000;

export type KeyLookup = { isKnown: true; id: string; owner: string | null } | { isKnown: false; reason: string };

const MISSPELT: KeyLookup = {
  isKnown: false,
  reason: "X-API-KEY is misspelt or cut off: its checksum does not match. Copy the key again.",
};
const UNKNOWN: KeyLookup = {
  isKnown: false,
  reason: "This API key is unknown. Leave out X-API-KEY to use the API without one.",
};
const REVOKED: KeyLookup = {
  isKnown: false,
  reason: "This API key has been revoked. Use another one, or leave out X-API-KEY to use the API without one.",
};

const BLOCKED: KeyLookup = {
  isKnown: false,
  reason: "The operator has blocked the owner of this API key. Leave out X-API-KEY to use the API without one.",
};

type CachedLookup = { lookup: KeyLookup; readAt: number };

/** Looks API keys up, each at most once a minute. */
export class KeyDirectory {
  readonly #lookups: BatchQueue<string, KeyRecord | null>;
  readonly #now: () => number;
  /** By hash: valid, revoked and blocked keys. */
  readonly #known = new Map<string, CachedLookup>();
  /** By hash. */
  readonly #unknown = new BoundedMap<string, CachedLookup>(MAX_UNKNOWN);
  readonly #inFlight = new Map<string, Promise<KeyLookup>>();
  /** The last key of each open connection: clients repeat their key, which then needs no hashing. */
  readonly #last = new WeakMap<object, { text: string; cached: CachedLookup }>();

  constructor(database: Database, load: BatchLoad, now: () => number = () => performance.now()) {
    this.#lookups = new BatchQueue((hashes) => findKeys(database, hashes), load);
    this.#now = now;
  }

  /**
   * Looks a key up without a query. Returns undefined if it takes one.
   * @param connection - the connection that the key came by
   */
  findCached(text: string, connection: object): KeyLookup | undefined {
    const last = this.#last.get(connection);
    if (last?.text === text && this.#isFresh(last.cached)) return last.cached.lookup;
    const hash = hashKey(text);
    const cached = this.#known.get(hash) ?? this.#unknown.get(hash);
    if (cached && this.#isFresh(cached)) {
      // A new string: a slice of a request would keep the whole request in memory.
      this.#last.set(connection, { text: Buffer.from(text).toString(), cached });
      return cached.lookup;
    }
    return isWellFormed(text) ? undefined : MISSPELT;
  }

  /** Looks a key up. */
  async find(text: string, connection: object = {}): Promise<KeyLookup> {
    const cached = this.findCached(text, connection);
    if (cached) return cached;
    const hash = hashKey(text);
    let reading = this.#inFlight.get(hash);
    if (!reading) {
      reading = this.#read(hash).finally(() => this.#inFlight.delete(hash));
      this.#inFlight.set(hash, reading);
    }
    return reading;
  }

  /** True if looking the key up is due or under way: it was found before, or another request waits for it. */
  isExpected(text: string): boolean {
    const hash = hashKey(text);
    return this.#known.has(hash) || this.#inFlight.has(hash);
  }

  /** Expires a key in the cache: once revoked, it stops working in this process at once. */
  forget(hash: string): void {
    const cached = this.#known.get(hash);
    if (cached) cached.readAt = Number.NEGATIVE_INFINITY;
  }

  #isFresh({ readAt }: CachedLookup): boolean {
    return this.#now() < readAt + CACHED_MS;
  }

  async #read(hash: string): Promise<KeyLookup> {
    const readAt = this.#now();
    const record = await this.#lookups.answer(hash);
    if (!record) {
      this.#known.delete(hash);
      this.#unknown.set(hash, { lookup: UNKNOWN, readAt });
      return UNKNOWN;
    }
    const lookup = describeRecord(record);
    this.#known.set(hash, { lookup, readAt });
    return lookup;
  }
}

const describeRecord = ({ id, owner, isRevoked, isBlocked }: KeyRecord): KeyLookup => {
  if (isRevoked) return REVOKED;
  return isBlocked ? BLOCKED : { isKnown: true, id, owner };
};
