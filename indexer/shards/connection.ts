import pg from "pg";
import { rejectOnAbort } from "../../process/program.ts";
import { holdIndexLock } from "./index-lock.ts";
import type { Queryable } from "./queryable.ts";

const CONNECT_TIMEOUT_MS = 10_000;
const QUERY_TIMEOUT_MS = 60_000;
const CLOSE_TIMEOUT_MS = 2_000;
/** Less than networks keep an idle connection: the one with the lock is idle. */
const KEEP_ALIVE_MS = 30_000;

/**
 * Fails instead of waiting for long readers; the caller retries. The timeout is shorter than Postgres waits before it
 * looks for a deadlock.
 */
export const YIELD_TO_READERS = "set local lock_timeout = '200ms'";

type Session = { client: pg.Client; end: () => Promise<unknown> };

/**
 * An indexer's connection, and a second one that holds the lock of the index. If either is lost, the next use connects
 * both again and retakes the lock.
 */
export class IndexerConnection implements Queryable {
  readonly #url: string;
  #lockedIndex: string | undefined;
  #session: Promise<Session> | undefined;
  /** Resolves when the statement or transaction that began last has ended. */
  #lastTurn: Promise<unknown> = Promise.resolve();
  /** True if the connection was lost since this was last set to false. */
  wasLost = false;

  constructor(url: string) {
    this.#url = url;
  }

  /** Takes the lock of an index. Throws an IndexTakenError if another process has it. */
  async lockIndex(schema: string): Promise<void> {
    await this.close();
    this.#lockedIndex = schema;
    await this.#getClient();
  }

  query<Row extends pg.QueryResultRow = pg.QueryResultRow>(text: string, values: unknown[] = []) {
    return this.#takeTurn((client) => client.query<Row>(text, values));
  }

  runTransaction<T>(run: (client: pg.Client) => Promise<T>): Promise<T> {
    return this.#takeTurn(async (client) => {
      await client.query("begin");
      try {
        const result = await run(client);
        await client.query("commit");
        return result;
      } catch (error) {
        await client.query("rollback").catch(() => {});
        throw error;
      }
    });
  }

  /** Runs one after another: no statement gets into a transaction that is not its own. */
  #takeTurn<T>(run: (client: pg.Client) => Promise<T>): Promise<T> {
    const turn = this.#lastTurn.then(async () => run(await this.#getClient()));
    this.#lastTurn = turn.catch(() => {});
    return turn;
  }

  /** Closes the connection, even if Postgres does not respond. */
  async close(): Promise<void> {
    const session = await this.#session?.catch(() => undefined);
    this.#session = undefined;
    const timeout = new Promise((resolve) => setTimeout(resolve, CLOSE_TIMEOUT_MS).unref());
    await Promise.race([session?.end(), timeout]);
  }

  async #getClient(): Promise<pg.Client> {
    if (!this.#session) {
      const connecting = this.#connect(() => {
        if (this.#session === connecting) this.#session = undefined;
        this.wasLost = true;
      });
      this.#session = connecting;
    }
    return (await this.#session).client;
  }

  async #connect(onLost: () => void): Promise<Session> {
    const clients: pg.Client[] = [];
    const end = () => Promise.all(clients.map((client) => client.end()));
    // A client that is ended while it connects never settles.
    const losing = new AbortController();
    const discard = (error: unknown) => {
      onLost();
      losing.abort(error);
      end().catch(() => {});
    };
    const open = async () => {
      const client = new pg.Client({
        connectionString: this.#url,
        application_name: "indexer",
        keepAlive: true,
        keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
        connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
        query_timeout: QUERY_TIMEOUT_MS,
      });
      client.on("error", discard);
      clients.push(client);
      await rejectOnAbort(losing.signal, client.connect());
      return client;
    };
    try {
      if (this.#lockedIndex) await holdIndexLock(await open(), this.#lockedIndex);
      return { client: await open(), end };
    } catch (error) {
      discard(error);
      throw error;
    }
  }
}
