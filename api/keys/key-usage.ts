import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Database } from "../database.ts";
import { Problem } from "../problem.ts";
import { addUsage, type Usage, type UsageBatch } from "../queries/api-keys.ts";

const WRITE_MS = 5_000;
const DAY_MS = 86_400_000;

/** When it was last used, in milliseconds. */
type Count = { requests: number; lastUsedAt: number };

/** Counts requests by key and day in memory, and writes them down every few seconds. */
export class KeyUsage {
  readonly #database: Database;
  readonly #writer = randomUUID();
  /** By day, and key. */
  #counts = new Map<number, Map<string, Count>>();
  /** What has been sent, and may or may not have arrived. */
  #batch: UsageBatch | null = null;
  #number = 0;
  #writing = Promise.resolve();

  constructor(database: Database) {
    this.#database = database;
  }

  count(keyId: string): void {
    const now = Date.now();
    const day = Math.floor(now / DAY_MS);
    let counts = this.#counts.get(day);
    if (!counts) {
      counts = new Map();
      this.#counts.set(day, counts);
    }
    const count = counts.get(keyId);
    if (count) {
      count.requests++;
      count.lastUsedAt = now;
    } else {
      counts.set(keyId, { requests: 1, lastUsedAt: now });
    }
  }

  /** Writes down what was counted. What cannot be written is sent again the next time. */
  write(): Promise<void> {
    const writing = this.#writing.then(() => this.#writeNow());
    this.#writing = writing.catch(() => {});
    return writing;
  }

  async #writeNow(): Promise<void> {
    try {
      await this.#send();
      await this.#send();
    } catch (error) {
      // That the database is out of reach is said elsewhere.
      if (!(error instanceof Problem)) throw error;
    }
  }

  /** Sends what could not be sent before, or else what has been counted since. */
  async #send(): Promise<void> {
    if (!this.#batch && this.#counts.size > 0) {
      this.#batch = { writer: this.#writer, number: ++this.#number, usage: usageOf(this.#counts) };
      this.#counts = new Map();
    }
    if (!this.#batch) return;
    await addUsage(this.#database, this.#batch);
    this.#batch = null;
  }

  /** Whether all that was counted is written down. */
  get isWritten(): boolean {
    return this.#batch === null && this.#counts.size === 0;
  }

  /** Writes every few seconds until the signal is aborted. */
  async watch(signal: AbortSignal, onError: (error: unknown) => void): Promise<void> {
    while (!signal.aborted) {
      await sleep(WRITE_MS, undefined, { signal, ref: false }).catch(() => {});
      await this.write().catch(onError);
    }
  }
}

const usageOf = (counts: ReadonlyMap<number, ReadonlyMap<string, Count>>): Usage[] =>
  [...counts].flatMap(([day, ofDay]) =>
    [...ofDay].map(([keyId, { requests, lastUsedAt }]) => ({
      keyId,
      day: new Date(day * DAY_MS).toISOString().slice(0, 10),
      requests,
      lastUsedAt: new Date(lastUsedAt),
    })),
  );
