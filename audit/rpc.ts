import {
  BaseError,
  type Client,
  HttpRequestError,
  LimitExceededRpcError,
  SocketClosedError,
  TimeoutError,
  WebSocketRequestError,
} from "viem";

const AT_ONCE = 16;
const ATTEMPTS = 7;
const FIRST_WAIT_MS = 250;

/** What a node, or the way to it, has said of a request. viem's own message repeats the request. */
export const saidBy = (error: unknown): string => {
  if (!(error instanceof BaseError)) return error instanceof Error ? error.message : String(error);
  const said = error.walk((cause) => cause instanceof BaseError && Boolean(cause.details));
  return said instanceof BaseError ? said.details : error.shortMessage;
};

const find = (error: unknown, isSuch: (cause: unknown) => boolean): boolean =>
  error instanceof BaseError ? error.walk(isSuch) !== null : isSuch(error);

const isTimeout = (error: unknown) => find(error, (cause) => cause instanceof TimeoutError);

/** Providers use one code for too many requests and for too large ones. */
const isRateLimit = (error: unknown) =>
  find(error, (cause) => cause instanceof HttpRequestError && cause.status === 429) ||
  (find(error, (cause) => cause instanceof LimitExceededRpcError) &&
    /rate|second|too many|capacity/i.test(saidBy(error)));

/** Whether no endpoint was there to say anything. */
const isUnreachable = (error: unknown) =>
  find(error, (cause) => {
    if (cause instanceof HttpRequestError) return cause.status === undefined || cause.status >= 500;
    return cause instanceof SocketClosedError || cause instanceof WebSocketRequestError;
  });

/** Whether a smaller request might be answered: one that the node refuses, or cannot do in time. */
export const isTooMuch = (error: unknown): boolean => !isUnreachable(error) && !isRateLimit(error);

/** A chain's RPC, asked no more at once than it can bear, and again when it was too much or nobody was there. */
export class Rpc {
  readonly client: Client;
  readonly #wait: (ms: number) => Promise<unknown>;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(client: Client, wait: (ms: number) => Promise<unknown>) {
    this.client = client;
    this.#wait = wait;
  }

  async ask<T>(request: (client: Client) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#inTurn(() => request(this.client));
      } catch (error) {
        const isWorthRepeating = isRateLimit(error) || isUnreachable(error) || isTimeout(error);
        if (!isWorthRepeating || attempt === ATTEMPTS) throw error;
      }
      await this.#wait(FIRST_WAIT_MS * 2 ** (attempt - 1));
    }
  }

  async #inTurn<T>(run: () => Promise<T>): Promise<T> {
    if (this.#running >= AT_ONCE) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    try {
      return await run();
    } finally {
      // Whoever waits takes this one's place.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running--;
    }
  }

  /** Does something for each of many things, as many at a time as can be asked for. After an error, for no more. */
  async forEach<T>(things: Iterable<T>, run: (thing: T) => Promise<void>): Promise<void> {
    const rest = things[Symbol.iterator]();
    let hasFailed = false;
    const work = async () => {
      try {
        for (let next = rest.next(); !next.done && !hasFailed; next = rest.next()) await run(next.value);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  }
}
