import { setTimeout as sleep } from "node:timers/promises";
import { createClient, defineScript } from "@redis/client";
import type { Logger } from "pino";
import { describeError } from "../../stack/program.ts";
import { within } from "../within.ts";
import type { Decision, Limit, SlidingWindow } from "./sliding-window.ts";

/** A server that is silent for this long is not waited for any more. */
const SILENCE_MS = 500;
const RECONNECT_MS = 500;

/**
 * The exact sliding window in Redis or Valkey: a list of a client's admissions, oldest first, in
 * microseconds of the server's own clock. It is gone when all of them are over.
 */
const TAKE = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: `
    local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local stamp = string.format('%.0f', now)

    -- The server's clock was set back: what seems to come is taken to be of this moment.
    if tonumber(redis.call('LINDEX', KEYS[1], -1) or 0) > now then
      for place = 0, redis.call('LLEN', KEYS[1]) - 1 do
        if tonumber(redis.call('LINDEX', KEYS[1], place)) > now then redis.call('LSET', KEYS[1], place, stamp) end
      end
    end

    local first = redis.call('LINDEX', KEYS[1], 0)
    while first and tonumber(first) <= now - window do
      redis.call('LPOP', KEYS[1])
      first = redis.call('LINDEX', KEYS[1], 0)
    end

    local admissions = redis.call('LLEN', KEYS[1])
    local admitted = admissions < limit
    if admitted then
      admissions = redis.call('RPUSH', KEYS[1], stamp)
      redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000))
    end
    local next = redis.call('LINDEX', KEYS[1], math.max(0, admissions - limit))
    return {admitted and 1 or 0, math.max(0, limit - admissions), next + window - now}
  `,
  parseCommand(parser, client: string, { requests, windowMs }: Limit) {
    parser.pushKey(client);
    parser.push(String(requests), String(windowMs * 1000));
  },
  transformReply: ([admitted, remaining, resetMicroseconds]: [number, number, number]): Decision => ({
    isAdmitted: admitted === 1,
    remaining,
    resetMs: resetMicroseconds / 1000,
  }),
});

/** Each attempt has a client of its own: one that hangs is given up for good. */
const createStore = (url: string) =>
  createClient({
    url,
    name: "delegation-registry-api",
    keyPrefix: "delegation-registry:rate-limit:",
    scripts: { take: TAKE },
    // What every version of every server speaks.
    RESP: 2,
    disableOfflineQueue: true,
    socket: { connectTimeout: SILENCE_MS, reconnectStrategy: false },
  });

type Store = ReturnType<typeof createStore>;

/**
 * One sliding window for all API processes. While its server is out of reach, each process limits by
 * itself, and knows what it admitted before.
 */
export class SharedWindow {
  readonly #url: string;
  readonly #limit: Limit;
  readonly #own: SlidingWindow;
  readonly #log: Logger;
  #store: Store | null = null;
  #isClosed = false;

  private constructor(url: string, limit: Limit, own: SlidingWindow, log: Logger) {
    this.#url = url;
    this.#limit = limit;
    this.#own = own;
    this.#log = log;
  }

  /** Connects, and goes on trying if that fails. */
  static async connect(url: string, limit: Limit, own: SlidingWindow, log: Logger): Promise<SharedWindow> {
    const window = new SharedWindow(url, limit, own, log);
    const reason = await window.#connect();
    if (reason !== null) window.#reconnect(reason);
    return window;
  }

  get isShared(): boolean {
    return this.#store !== null;
  }

  async take(client: string): Promise<Decision> {
    const decision = await this.#takeShared(client);
    if (decision === null) return this.#own.take(client);
    if (decision.isAdmitted) this.#own.record(client);
    return decision;
  }

  close(): void {
    this.#isClosed = true;
    this.#store?.destroy();
    this.#store = null;
  }

  async #takeShared(client: string): Promise<Decision | null> {
    const store = this.#store;
    if (store === null) return null;
    try {
      return await within(SILENCE_MS, store.take(client, this.#limit), silent);
    } catch (error) {
      this.#lose(store, error);
      return null;
    }
  }

  #lose(store: Store, error: unknown): void {
    if (this.#store !== store) return;
    this.#store = null;
    discard(store);
    this.#reconnect(error);
  }

  async #reconnect(reason: unknown): Promise<void> {
    if (this.#isClosed) return;
    this.#log.error(`Rate limits are not shared, each process limits by itself: ${describeError(reason)}`);
    while (!this.#isClosed && this.#store === null) {
      await sleep(RECONNECT_MS, undefined, { ref: false });
      if (!this.#isClosed && (await this.#connect()) === null) this.#log.info("Rate limits are shared again");
    }
  }

  /** @returns why it failed; null if it did not */
  async #connect(): Promise<unknown> {
    const store = createStore(this.#url);
    store.on("error", (error) => this.#lose(store, error));
    try {
      await within(SILENCE_MS, store.connect(), silent);
      await within(SILENCE_MS, store.ping(), silent);
      if (this.#isClosed) discard(store);
      else this.#store = store;
      return null;
    } catch (error) {
      discard(store);
      return error;
    }
  }
}

const silent = () => new Error("the store does not answer");

/** Ends a client, whatever state it is in. */
const discard = (store: Store) => {
  if (store.isOpen) store.destroy();
};
