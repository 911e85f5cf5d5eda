import { setTimeout as sleep } from "node:timers/promises";
import { createClient, defineScript } from "@redis/client";
import type { Logger } from "pino";
import { describeError } from "../../stack/program.ts";
import { withDeadline } from "../deadline.ts";
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
    // Whoever asks has a limit of its own.
    commandOptions: { timeout: undefined },
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
  /** Since when the store is there. */
  #since = 0;
  #hasBeenLost = false;
  #isReconnecting = false;
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
    const hasReturned = this.#hasBeenLost && performance.now() < this.#since + this.#limit.windowMs;
    if (hasReturned) {
      const own = this.#own.take(client);
      return own.isAdmitted ? ((await this.#takeShared(client)) ?? own) : own;
    }
    const shared = await this.#takeShared(client);
    if (shared?.isAdmitted) this.#own.record(client);
    return shared ?? this.#own.take(client);
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
      return await withDeadline(SILENCE_MS, store.take(client, this.#limit), silent);
    } catch (error) {
      // One client's list that somebody else has written over is no reason to give up all.
      if (!(error instanceof Error && error.message.startsWith("WRONGTYPE"))) this.#lose(store, error);
      return null;
    }
  }

  #lose(store: Store, error: unknown): void {
    if (this.#store !== store) return;
    this.#store = null;
    store.destroy();
    this.#reconnect(error);
  }

  async #reconnect(reason: unknown): Promise<void> {
    if (this.#isClosed || this.#isReconnecting) return;
    this.#isReconnecting = true;
    this.#hasBeenLost = true;
    this.#log.error(`Rate limits are not shared, each process limits by itself: ${describeError(reason)}`);
    while (!this.#isClosed && this.#store === null) {
      await sleep(RECONNECT_MS, undefined, { ref: false });
      if (!this.#isClosed) await this.#connect();
    }
    this.#isReconnecting = false;
    if (!this.#isClosed) this.#log.info("Rate limits are shared again");
  }

  /** @returns why it failed; null if it did not */
  async #connect(): Promise<unknown> {
    const store = createStore(this.#url);
    store.on("error", (error) => this.#lose(store, error));
    const connecting = store.connect();
    try {
      await withDeadline(SILENCE_MS, connecting, silent);
      // One that is full, or a replica, would answer a PING all the same.
      await withDeadline(SILENCE_MS, store.take("probe", { requests: 1, windowMs: 1 }), silent);
      if (this.#isClosed) throw new Error("It is not needed any more.");
      this.#store = store;
      this.#since = performance.now();
      return null;
    } catch (error) {
      store.destroy();
      // A connection that is made too late would not be ended by that.
      connecting.then(
        () => store.destroy(),
        () => {},
      );
      return error;
    }
  }
}

const silent = () => new Error("the store does not answer");
