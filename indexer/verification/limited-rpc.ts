import { BaseError, type Client, HttpRequestError, SocketClosedError, TimeoutError, WebSocketRequestError } from "viem";
import { hasCause, RateLimitError } from "../rpc/rpc-errors.ts";

const MAX_CONCURRENT = 16;
const ATTEMPTS = 7;
const FIRST_RETRY_MS = 250;

/** Returns the node's error message. viem's own message repeats the request. */
export const describeRpcError = (error: unknown): string => {
  if (!(error instanceof BaseError)) return error instanceof Error ? error.message : String(error);
  const detailed = error.walk((cause) => cause instanceof BaseError && Boolean(cause.details));
  return detailed instanceof BaseError ? detailed.details : error.shortMessage;
};

const isTimeout = (error: unknown) => hasCause(error, (cause) => cause instanceof TimeoutError);

/** The client recognises the rate limits of all providers. */
const isRateLimit = (error: unknown) => hasCause(error, (cause) => cause instanceof RateLimitError);

const isUnreachable = (error: unknown) =>
  hasCause(error, (cause) => {
    if (cause instanceof HttpRequestError) return cause.status === undefined || cause.status >= 500;
    return cause instanceof SocketClosedError || cause instanceof WebSocketRequestError;
  });

/** Returns true if the node refused a request or timed out: it may answer a smaller one. */
export const isTooLarge = (error: unknown): boolean => !isUnreachable(error) && !isRateLimit(error);

/** A chain's RPC with limited concurrency. Retries after rate limits, timeouts and connection failures. */
export class LimitedRpc {
  readonly client: Client;
  /** Requests that were sent. */
  requests = 0;
  /** False once the node has refused to read several lists with one request. */
  canBatch = true;
  readonly #wait: (ms: number) => Promise<unknown>;
  #running = 0;
  readonly #queue: (() => void)[] = [];

  constructor(client: Client, wait: (ms: number) => Promise<unknown>) {
    this.client = client;
    this.#wait = wait;
  }

  async request<T>(request: (client: Client) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      this.requests++;
      try {
        return await this.#withSlot(() => request(this.client));
      } catch (error) {
        const canRetry = isRateLimit(error) || isUnreachable(error) || isTimeout(error);
        if (!canRetry || attempt === ATTEMPTS) throw error;
      }
      await this.#wait(FIRST_RETRY_MS * 2 ** (attempt - 1));
    }
  }

  /** Runs a function when fewer than the maximum are running. */
  async #withSlot<T>(run: () => Promise<T>): Promise<T> {
    if (this.#running >= MAX_CONCURRENT) await new Promise<void>((resolve) => this.#queue.push(resolve));
    else this.#running++;
    try {
      return await run();
    } finally {
      // The next one in the queue takes over this slot.
      const next = this.#queue.shift();
      if (next) next();
      else this.#running--;
    }
  }

  /** Runs a function for each item, concurrently. Starts no more after an error. */
  async forEach<T>(items: Iterable<T>, run: (item: T) => Promise<void>): Promise<void> {
    const rest = items[Symbol.iterator]();
    let hasFailed = false;
    const work = async () => {
      try {
        for (let next = rest.next(); !next.done && !hasFailed; next = rest.next()) await run(next.value);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    };
    await Promise.all(Array.from({ length: MAX_CONCURRENT }, work));
  }
}
