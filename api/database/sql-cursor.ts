import type pg from "pg";
import { queryTimeoutMs } from "./pools.ts";

/** The result is complete when the cursor is open: a fetch is as fast as a short list. */
const FETCH = { query_timeout: queryTimeoutMs("lists") };

/**
 * Ends the transaction that computed the result, and its snapshot and locks, and stays in an empty one: PgBouncer may give
 * each transaction another connection, which has no such cursor, or that of another request.
 */
const PIN = "commit; begin; set local idle_in_transaction_session_timeout = 0";

/** An SQL cursor over a result that Postgres keeps until it is closed. Holds a connection. */
export class SqlCursor<Row> {
  readonly #client: pg.PoolClient;
  #isReleased = false;

  constructor(client: pg.PoolClient) {
    this.#client = client;
    // Without a listener the process would end.
    client.on("error", ignore);
  }

  /** @returns the first row */
  async open(text: string, values: unknown[]): Promise<Row | undefined> {
    try {
      await this.#client.query("begin");
      await this.#client.query(`declare list no scroll cursor with hold for ${text}`, values);
      await this.#client.query(PIN);
      const [first] = await this.fetch(1);
      return first;
    } catch (error) {
      this.#release(true);
      throw error;
    }
  }

  async fetch(count: number): Promise<Row[]> {
    const { rows } = await this.#client.query({ ...FETCH, text: `fetch ${count} from list` });
    return rows as Row[];
  }

  async close(): Promise<void> {
    if (this.#isReleased) return;
    const closing = this.#client.query({ ...FETCH, text: "close list; commit" });
    this.#isReleased = true;
    await closing.then(
      () => this.#release(false),
      () => this.#release(true),
    );
  }

  #release(isBroken: boolean): void {
    this.#isReleased = true;
    this.#client.off("error", ignore);
    this.#client.release(isBroken);
  }
}

const ignore = () => {};
