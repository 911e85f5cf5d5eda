import { setTimeout as sleep } from "node:timers/promises";
import type { Database } from "../database.ts";
import { Problem } from "../problem.ts";
import { addUsage, type Usage } from "../queries/api-keys.ts";

const WRITE_MS = 5_000;

/** Counts requests by key and day in memory, and writes them down every few seconds. */
export class KeyUsage {
  readonly #database: Database;
  #counts = new Map<string, Usage>();

  constructor(database: Database) {
    this.#database = database;
  }

  count(keyId: string): void {
    const lastUsedAt = new Date();
    const day = lastUsedAt.toISOString().slice(0, 10);
    this.#add({ keyId, day, requests: 1, lastUsedAt });
  }

  #add({ keyId, day, requests, lastUsedAt }: Usage): void {
    const name = `${day} ${keyId}`;
    const usage = this.#counts.get(name);
    if (!usage) {
      this.#counts.set(name, { keyId, day, requests, lastUsedAt });
    } else {
      usage.requests += requests;
      if (lastUsedAt > usage.lastUsedAt) usage.lastUsedAt = lastUsedAt;
    }
  }

  /** Writes down what was counted. What cannot be written is kept for the next time. */
  async write(): Promise<void> {
    const counted = [...this.#counts.values()];
    if (counted.length === 0) return;
    this.#counts = new Map();
    try {
      await addUsage(this.#database, counted);
    } catch (error) {
      for (const usage of counted) this.#add(usage);
      // That the database is out of reach is said elsewhere.
      if (!(error instanceof Problem)) throw error;
    }
  }

  /** Writes every few seconds until the signal is aborted. */
  async watch(signal: AbortSignal, onError: (error: unknown) => void): Promise<void> {
    while (!signal.aborted) {
      await sleep(WRITE_MS, undefined, { signal, ref: false }).catch(() => {});
      await this.write().catch(onError);
    }
  }
}
