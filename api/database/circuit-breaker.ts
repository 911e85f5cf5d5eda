import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Logger } from "pino";
import { CONNECT_TIMEOUT_MS } from "./pools.ts";

const PROBE_INTERVAL_MS = 500;

/** A circuit breaker: a lost connection opens it, and it probes the database until it can close again. */
export class CircuitBreaker {
  readonly #url: string;
  readonly #log: Logger;
  readonly #name: string;
  #isOpen = false;
  #isStopped = false;

  /** @param name - the database's name in the log */
  constructor(url: string, log: Logger, name: string) {
    this.#url = url;
    this.#log = log;
    this.#name = name;
  }

  /** True while the database is out of reach: callers fail without a query. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  open(error: Error): void {
    if (this.#isOpen || this.#isStopped) return;
    this.#isOpen = true;
    this.#log.error(`${this.#name} is out of reach: ${error.message}`);
    this.#probe();
  }

  /** Stops probing. */
  stop(): void {
    this.#isStopped = true;
  }

  async #probe(): Promise<void> {
    while (!this.#isStopped && !(await this.#canConnect())) await sleep(PROBE_INTERVAL_MS, undefined, { ref: false });
    if (this.#isStopped) return;
    this.#isOpen = false;
    this.#log.info(`${this.#name} answers again`);
  }

  async #canConnect(): Promise<boolean> {
    let client: pg.Client | undefined;
    try {
      client = new pg.Client({
        connectionString: this.#url,
        application_name: "api",
        connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
        query_timeout: CONNECT_TIMEOUT_MS,
      });
      client.on("error", () => {});
      await client.connect();
      await client.query("select 1");
      return true;
    } catch {
      return false;
    } finally {
      client?.end().catch(() => {});
    }
  }
}
