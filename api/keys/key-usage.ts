import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Database } from "../database/database.ts";
import { Problem } from "../problem.ts";
import { addUsage, type DailyUsage, type UsageBatch } from "./api-keys.ts";

const WRITE_MS = 5_000;
const DAY_MS = 86_400_000;

type Count = { requests: number; lastUsedAt: number };

/** Counts requests by key and day in memory, and stores the counts every few seconds. */
export class KeyUsage {
  readonly #database: Database;
  readonly #writer = randomUUID();
  /** By day, then by key. */
  #counts = new Map<number, Map<string, Count>>();
  /** The batch in flight. After a failure it may or may not be stored. */
  #batch: UsageBatch | null = null;
  #batchNumber = 0;
  #writing = Promise.resolve();

  constructor(database: Database) {
    this.#database = database;
  }

  count(keyId: string, requests = 1): void {
    const now = Date.now();
    const day = Math.floor(now / DAY_MS);
    let counts = this.#counts.get(day);
    if (!counts) {
      counts = new Map();
      this.#counts.set(day, counts);
    }
    const count = counts.get(keyId);
    if (count) {
      count.requests += requests;
      count.lastUsedAt = now;
    } else {
      counts.set(keyId, { requests, lastUsedAt: now });
    }
  }

  /** Stores the counts. A batch that fails is sent again by the next call. */
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
      // The database logs that it is unreachable.
      if (!(error instanceof Problem)) throw error;
    }
  }

  /** Sends the batch that failed before, or else the new counts. */
  async #send(): Promise<void> {
    if (!this.#batch && this.#counts.size > 0) {
      this.#batch = { writer: this.#writer, number: ++this.#batchNumber, usage: listUsage(this.#counts) };
      this.#counts = new Map();
    }
    if (!this.#batch) return;
    await addUsage(this.#database, this.#batch);
    this.#batch = null;
  }

  /** True if all counts are stored. */
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

const listUsage = (counts: ReadonlyMap<number, ReadonlyMap<string, Count>>): DailyUsage[] =>
  [...counts].flatMap(([day, countsByKey]) =>
    [...countsByKey].map(([keyId, { requests, lastUsedAt }]) => ({
      keyId,
      day: new Date(day * DAY_MS).toISOString().slice(0, 10),
      requests,
      lastUsedAt: new Date(lastUsedAt),
    })),
  );
