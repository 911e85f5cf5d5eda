import { setTimeout as sleep } from "node:timers/promises";
import { createClient, defineScript } from "@redis/client";
import type { Logger } from "pino";
import { describeError } from "../../process/program.ts";
import { withDeadline } from "../database/deadline.ts";
import type { Decision, Limit, SlidingWindow } from "./sliding-window.ts";

const TIMEOUT_MS = 500;
const RECONNECT_MS = 500;

/**
 * The exact sliding window in Redis or Valkey: a list of a client's admissions, oldest first, in
 * microseconds of the server's own clock. It expires with the last admission.
 */
const TAKE = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: `
    local limit, window, count = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local stamp = string.format('%.0f', now)

    -- The server's clock was set back: admissions in the future count as admissions now.
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
    local admitted = admissions + count <= limit
    -- Requests for which admissions have to leave the window.
    local wanted = tonumber(ARGV[4])
    if admitted then
      for _ = 1, count do admissions = redis.call('RPUSH', KEYS[1], stamp) end
      redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000))
      wanted = 1
    end
    local next = redis.call('LINDEX', KEYS[1], math.max(0, admissions + wanted - limit - 1))
    return {admitted and 1 or 0, math.max(0, limit - admissions), next + window - now}
  `,
  parseCommand(parser, client: string, { requests, windowMs }: Limit, count: number, retried: number) {
    parser.pushKey(client);
    parser.push(String(requests), String(windowMs * 1000), String(count), String(retried));
  },
  transformReply: ([admitted, remaining, resetMicroseconds]: [number, number, number]): Decision => ({
    isAdmitted: admitted === 1,
    remaining,
    resetMs: resetMicroseconds / 1000,
  }),
});

/** Creates a client for one connection attempt. A client that hangs is never reused. */
const createStore = (url: string) =>
  createClient({
    url,
    name: "delegation-registry-api",
    keyPrefix: "delegation-registry:rate-limit:",
    scripts: { take: TAKE },
    // Every version of every server supports it.
    RESP: 2,
    disableOfflineQueue: true,
    // Callers have a deadline of their own.
    commandOptions: { timeout: undefined },
    socket: { connectTimeout: TIMEOUT_MS, reconnectStrategy: false },
  });

type Store = ReturnType<typeof createStore>;

/**
 * One sliding window for all API processes. While its server is unreachable, each process applies its own limit,
 * which includes everything that this process admitted before. The server may come back without its data, so the
 * local window stays in force for one window length: no single process ever admits more than the limit.
 */
export class SharedWindow {
  readonly #url: string;
  readonly limit: Limit;
  readonly #local: SlidingWindow;
  readonly #log: Logger;
  #store: Store | null = null;
  #connectedAt = 0;
  #hasBeenLost = false;
  #isReconnecting = false;
  #isClosed = false;

  private constructor(url: string, limit: Limit, local: SlidingWindow, log: Logger) {
    this.#url = url;
    this.limit = limit;
    this.#local = local;
    this.#log = log;
  }

  /** Connects to the store. If that fails, retries in the background. */
  static async connect(url: string, limit: Limit, local: SlidingWindow, log: Logger): Promise<SharedWindow> {
    const window = new SharedWindow(url, limit, local, log);
    const failure = await window.#connect();
    if (failure !== null) window.#reconnect(failure);
    return window;
  }

  /** Number of clients that this process remembers. */
  get size(): number {
    return this.#local.size;
  }

  get isShared(): boolean {
    return this.#store !== null;
  }

  async take(client: string, count = 1, retried = count): Promise<Decision> {
    const isRecentlyBack = this.#hasBeenLost && performance.now() < this.#connectedAt + this.limit.windowMs;
    if (isRecentlyBack) {
      const local = this.#local.take(client, count, retried);
      return local.isAdmitted ? ((await this.#takeShared(client, count, retried)) ?? local) : local;
    }
    const shared = await this.#takeShared(client, count, retried);
    if (shared?.isAdmitted) this.#local.record(client, count);
    return shared ?? this.#local.take(client, count, retried);
  }

  close(): void {
    this.#isClosed = true;
    this.#store?.destroy();
    this.#store = null;
  }

  async #takeShared(client: string, count: number, retried: number): Promise<Decision | null> {
    const store = this.#store;
    if (store === null) return null;
    try {
      return await withDeadline(TIMEOUT_MS, store.take(client, this.limit, count, retried), timedOut);
    } catch (error) {
      // Another program has overwritten one client's list. The store still works for all other clients.
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

  async #reconnect(failure: unknown): Promise<void> {
    if (this.#isClosed || this.#isReconnecting) return;
    this.#isReconnecting = true;
    this.#hasBeenLost = true;
    this.#log.error(`Rate limits are not shared, each process applies its own limit: ${describeError(failure)}`);
    while (!this.#isClosed && this.#store === null) {
      await sleep(RECONNECT_MS, undefined, { ref: false });
      if (!this.#isClosed) await this.#connect();
    }
    this.#isReconnecting = false;
    if (!this.#isClosed) this.#log.info("Rate limits are shared again");
  }

  /** @returns the failure, or null */
  async #connect(): Promise<unknown> {
    const store = createStore(this.#url);
    store.on("error", (error) => this.#lose(store, error));
    const connecting = store.connect();
    try {
      await withDeadline(TIMEOUT_MS, connecting, timedOut);
      // A full server or a replica would answer a PING too.
      await withDeadline(TIMEOUT_MS, store.take("probe", { requests: 1, windowMs: 1 }, 1, 1), timedOut);
      if (this.#isClosed) throw new Error("The window is closed.");
      this.#store = store;
      this.#connectedAt = performance.now();
      return null;
    } catch (error) {
      store.destroy();
      // destroy() does not end a connection that opens after the timeout.
      connecting.then(
        () => store.destroy(),
        () => {},
      );
      return error;
    }
  }
}

/** The rate limit of requests without a key: of this process, or of all that share a store. */
export type Limiter = SlidingWindow | SharedWindow;

const timedOut = () => new Error(`the store did not respond within ${TIMEOUT_MS} ms`);
