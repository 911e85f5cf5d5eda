import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Logger } from "pino";
import { withPatience } from "./deadline.ts";
import { CONNECT_TIMEOUT_MS } from "./pools.ts";
import { explainSqlState } from "./postgres-errors.ts";

const PROBE_INTERVAL_MS = 500;
/** Time for a probe in which this process is not stalled. With a suspicion after 0.3 s, the breaker opens after 1.2 s. */
const PROBE_TIMEOUT_MS = 900;

/**
 * A circuit breaker: a lost connection opens it, and it probes the database until it can close again. A slow answer opens
 * it only if a probe fails too: this process may have stalled itself, or the statement be slow, while the database is well.
 */
export class CircuitBreaker {
  readonly #url: string;
  readonly #log: Logger;
  readonly #name: string;
  #isOpen = false;
  /** No other probe of a suspicion starts before. */
  #suspiciousUntil = 0;
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

  /** Probes a database that has not answered for a while, and opens if the probe fails. */
  async suspect(): Promise<void> {
    if (this.#isOpen || this.#isStopped || performance.now() < this.#suspiciousUntil) return;
    this.#suspiciousUntil = Number.POSITIVE_INFINITY;
    const canConnect = await this.#canConnect();
    this.#suspiciousUntil = performance.now() + PROBE_INTERVAL_MS;
    if (!canConnect) this.open(new Error("it does not respond"));
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
        // Close the connection of a failed probe.
        connectionTimeoutMillis: 2 * CONNECT_TIMEOUT_MS,
        query_timeout: 2 * CONNECT_TIMEOUT_MS,
      });
      client.on("error", () => {});
      await withPatience(PROBE_TIMEOUT_MS, ask(client), () => new Error("The probe took too long."));
      return true;
    } catch (error) {
      // A database without a free connection answers: the pools have theirs.
      return explainSqlState(error) !== null;
    } finally {
      client?.end().catch(() => {});
    }
  }
}

const ask = async (client: pg.Client): Promise<void> => {
  await client.connect();
  await client.query("select 1");
};
