import { setTimeout as sleep } from "node:timers/promises";
import { createClient, defineScript, ErrorReply } from "@redis/client";
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
      local stamps = redis.call('LRANGE', KEYS[1], 0, -1)
      redis.call('DEL', KEYS[1])
      for _, other in ipairs(stamps) do
        redis.call('RPUSH', KEYS[1], tonumber(other) > now and stamp or other)
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
 * itself. It knows what it admitted before, and does not forget it when the server is back, which may
 * have: no process by itself ever admits more than the limit.
 */
export class SharedWindow {
  readonly #url: string;
  readonly #limit: Limit;
  readonly #own: SlidingWindow;
  readonly #log: Logger;
  #store: Store | null = null;
  /** When the store was back the last time. */
  #returnedAt = Number.NEGATIVE_INFINITY;
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
    const hasReturned = performance.now() < this.#returnedAt + this.#limit.windowMs;
    const decision = (hasReturned ? this.#own.refusal(client) : null) ?? (await this.#takeShared(client));
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
      // It may be about this one client, whose list somebody else has written over.
      if (!(error instanceof ErrorReply && (await this.#isWorking(store)))) this.#lose(store, error);
      return null;
    }
  }

  /** Whether it runs the script: one that is full, or a replica, would answer all the same. */
  async #isWorking(store: Store): Promise<boolean> {
    return this.#try(store).then(
      () => true,
      () => false,
    );
  }

  #try(store: Store): Promise<Decision> {
    return within(SILENCE_MS, store.take("probe", { requests: 1, windowMs: 1 }), silent);
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
      if (!this.#isClosed) await this.#connect();
    }
    if (this.#isClosed) return;
    this.#returnedAt = performance.now();
    this.#log.info("Rate limits are shared again");
  }

  /** @returns why it failed; null if it did not */
  async #connect(): Promise<unknown> {
    const store = createStore(this.#url);
    store.on("error", (error) => this.#lose(store, error));
    try {
      await within(SILENCE_MS, store.connect(), silent);
      await this.#try(store);
      if (this.#isClosed) throw new Error("It is not needed any more.");
      this.#store = store;
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
