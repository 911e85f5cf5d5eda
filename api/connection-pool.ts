import pg from "pg";

/** Connections that nobody has needed for this long are closed. */
const SPARE_MS = 10_000;
/** How often to look for those that are in use for too long. */
const LOOK_MS = 25;

export type PoolOptions = pg.PoolConfig & {
  max: number;
  /** A connection that is in use for longer is cut off: its server does not answer any more. */
  longestUseMs: number;
  /** A connection was lost that was not in use. */
  onLoss: (error: Error) => void;
};

/**
 * pg's pool, with the connections that were used last kept at hand. To take one out of pg's own, to have it watch over a
 * statement, and to put it back sets and clears three timers and makes half a dozen promises: a tenth of the time that an
 * answer takes when requests come one by one.
 */
export class ConnectionPool {
  readonly #pool: pg.Pool;
  /** Taken out of the pool, and not in use; the last one was used last. */
  readonly #kept: pg.PoolClient[] = [];
  /** How many of them there were at least since it was last looked. */
  #spare = 0;
  /** Since when others are in use. */
  readonly #taken = new Map<pg.PoolClient, number>();
  readonly #longestUseMs: number;
  /** Failed. pg's pool would not have them back, either. */
  readonly #dead = new WeakSet<pg.PoolClient>();
  readonly #closing = setInterval(() => this.#closeSpare(), SPARE_MS).unref();
  #looking: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor({ onLoss, longestUseMs, ...options }: PoolOptions) {
    this.#longestUseMs = longestUseMs;
    this.#pool = new pg.Pool(options);
    this.#pool.on("error", onLoss);
    // Without a listener the process would end.
    this.#pool.on("connect", (client) => client.on("error", (error) => this.#lose(client) && onLoss(error)));
  }

  /** A connection for one user: at once, if one is at hand. */
  take(): pg.PoolClient | Promise<pg.PoolClient> {
    const client = this.#kept.pop();
    this.#spare = Math.min(this.#spare, this.#kept.length);
    return client ? this.#use(client) : this.#pool.connect().then((made) => this.#use(made));
  }

  #use(client: pg.PoolClient): pg.PoolClient {
    this.#taken.set(client, performance.now());
    this.#looking ??= setInterval(() => this.#cutOffSilent(), LOOK_MS).unref();
    return client;
  }

  /** Gives it back; one that is broken is replaced when one is needed. */
  give(client: pg.PoolClient, isBroken = false): void {
    this.#taken.delete(client);
    const isOver = isBroken || this.#dead.has(client);
    if (isOver || this.#isClosed || this.#pool.waitingCount > 0) client.release(isOver);
    else this.#kept.push(client);
  }

  /** How busy its connections are. */
  get state() {
    const { totalCount, idleCount, waitingCount, options } = this.#pool;
    const idle = idleCount + this.#kept.length;
    return { busy: totalCount - idle, idle, waiting: waitingCount, limit: options.max };
  }

  /** Closes all that are kept. */
  dropKept(): void {
    this.#spare = 0;
    for (const client of this.#kept.splice(0)) client.release(true);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.dropKept();
    clearInterval(this.#closing);
    await this.#pool.end();
  }

  #closeSpare(): void {
    for (const client of this.#kept.splice(0, this.#spare)) client.release(true);
    this.#spare = this.#kept.length;
  }

  #cutOffSilent(): void {
    if (this.#taken.size === 0) {
      clearInterval(this.#looking);
      this.#looking = undefined;
    }
    const now = performance.now();
    for (const [client, since] of this.#taken) {
      if (now < since + this.#longestUseMs) continue;
      // What arrived while this process was busy is not too late.
      setImmediate(() => {
        if (this.#taken.get(client) === since) client.connection.stream.destroy(new Error("it does not answer"));
      });
    }
  }

  /**
   * Drops a connection that has failed; one that is in use, when it is given back.
   * @returns whether it was not in use
   */
  #lose(client: pg.PoolClient): boolean {
    this.#dead.add(client);
    const place = this.#kept.indexOf(client);
    if (place === -1) return false;
    this.#kept.splice(place, 1);
    this.#spare = Math.min(this.#spare, this.#kept.length);
    client.release(true);
    return true;
  }
}
