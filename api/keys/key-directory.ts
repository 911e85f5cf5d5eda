import { Batch, type BatchLoad } from "../batch.ts";
import type { Database } from "../database.ts";
import { findKeys, type KeyRecord } from "../queries/api-keys.ts";
import { hashKey, isWellFormed } from "./api-key.ts";

/** What is known of a key counts for this long: so long may a revoked one be used. */
const REMEMBERED_MS = 60_000;
/** Keys that nobody has are remembered too, up to this many: anybody can make them up. */
const MOST_UNKNOWN = 10_000;

export type Key = { isKnown: true; id: string } | { isKnown: false; reason: string };

const MISSPELT: Key = {
  isKnown: false,
  reason: "X-API-KEY is misspelt or cut off: its checksum does not fit. Copy the key once more.",
};
const UNKNOWN: Key = {
  isKnown: false,
  reason: "This API key is not known here. Leave out X-API-KEY to ask without one.",
};
const REVOKED: Key = {
  isKnown: false,
  reason: "This API key has been revoked. Use another one, or leave out X-API-KEY to ask without one.",
};

type Finding = { key: Key; since: number };

/** Tells known API keys from others. Each is looked up at most once a minute. */
export class KeyDirectory {
  readonly #lookups: Batch<string, KeyRecord | null>;
  readonly #now: () => number;
  /** By hash: keys that somebody has or had, and all others. */
  readonly #known = new Map<string, Finding>();
  readonly #unknown = new Map<string, Finding>();
  readonly #underWay = new Map<string, Promise<Key>>();
  /** By connection, for as long as that is there: a client sends the same key again, and need not have it hashed again. */
  readonly #last = new WeakMap<object, { text: string; finding: Finding }>();

  constructor(database: Database, load: BatchLoad, now: () => number = () => performance.now()) {
    this.#lookups = new Batch((hashes) => findKeys(database, hashes), load);
    this.#now = now;
  }

  /**
   * At once where it is remembered.
   * @param connection - which it came by
   */
  find(text: string, connection: object = {}): Key | Promise<Key> {
    const last = this.#last.get(connection);
    if (last?.text === text && this.#isFresh(last.finding)) return last.finding.key;
    const hash = hashKey(text);
    const found = this.#known.get(hash) ?? this.#unknown.get(hash);
    if (found && this.#isFresh(found)) {
      // A text of its own: a part of a request would keep all of it in memory.
      this.#last.set(connection, { text: Buffer.from(text).toString(), finding: found });
      return found.key;
    }
    if (!isWellFormed(text)) return MISSPELT;

    let lookup = this.#underWay.get(hash);
    if (!lookup) {
      lookup = this.#lookUp(hash).finally(() => this.#underWay.delete(hash));
      this.#underWay.set(hash, lookup);
    }
    return lookup;
  }

  /** Has a key looked up anew when it is next used: in this process it is ended at once. */
  forget(hash: string): void {
    const found = this.#known.get(hash);
    if (found) found.since = Number.NEGATIVE_INFINITY;
  }

  #isFresh({ since }: Finding): boolean {
    return this.#now() < since + REMEMBERED_MS;
  }

  async #lookUp(hash: string): Promise<Key> {
    const since = this.#now();
    const record = await this.#lookups.answer(hash);
    if (!record) {
      this.#known.delete(hash);
      // Anew, so that it is the last to be forgotten.
      this.#unknown.delete(hash);
      this.#unknown.set(hash, { key: UNKNOWN, since });
      const [oldest] = this.#unknown.keys();
      if (this.#unknown.size > MOST_UNKNOWN && oldest !== undefined) this.#unknown.delete(oldest);
      return UNKNOWN;
    }
    const key: Key = record.isRevoked ? REVOKED : { isKnown: true, id: record.id };
    this.#known.set(hash, { key, since });
    return key;
  }
}
