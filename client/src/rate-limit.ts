import { orAborted } from "./abortable.ts";

export type Limit = {
  /** Requests in a window; each check of many counts as one. */
  quota: number;
  windowMs: number;
};

/** Requests that count: without an end while they are in flight. */
type Spent = { cost: number; until: number };

type Wait = (ms: number, limit: Limit, signal: AbortSignal | undefined) => Promise<void>;

/** A request's turn. */
export type Turn = {
  /** What it may cost: at least 1, at most what was asked for. */
  granted: number;
  /** Reads a response. Returns true if the limit has refused the request and knows when the next one may follow. */
  read: (response: Response | null) => boolean;
};

/** Keeps to a service's rate limit, which its responses name: a request waits until the service would admit it. */
export class RateLimit {
  readonly #wait: Wait;
  /** The limit of a service whose limit is not known yet. */
  #limit: Limit = { quota: 25, windowMs: 10_000 };
  #spent: Spent[] = [];
  #queue: Promise<unknown> = Promise.resolve();
  #onResponse = () => {};

  constructor(wait: Wait) {
    this.#wait = wait;
  }

  /** Waits for a request's turn, and counts it. @param needed - with less than this, it waits; 1 by default */
  take(wanted: number, signal?: AbortSignal, needed = 1): Promise<Turn> {
    const turn = this.#queue.then(() => this.#admit(wanted, needed, signal));
    this.#queue = turn.catch(() => {});
    return orAborted(turn, signal);
  }

  async #admit(wanted: number, needed: number, signal?: AbortSignal): Promise<Turn> {
    const granted = Math.min(wanted, await this.#waitForRoom(needed, signal));
    // The caller sends nothing after an abort: do not count it.
    signal?.throwIfAborted();
    const spent = { cost: granted, until: Number.POSITIVE_INFINITY };
    this.#spent.push(spent);
    const read = (response: Response | null) => {
      const isRefused = this.#read(spent, response);
      this.#onResponse();
      return isRefused;
    };
    return { granted, read };
  }

  async #waitForRoom(needed: number, signal?: AbortSignal): Promise<number> {
    for (;;) {
      const { quota } = this.#limit;
      const room = quota - this.#count();
      if (room >= Math.min(needed, quota)) return room;
      const next = Math.min(...this.#spent.map(({ until }) => until));
      if (next === Number.POSITIVE_INFINITY) await orAborted(this.#untilResponse(), signal);
      else await this.#wait(Math.max(next - Date.now(), 1), this.#limit, signal);
    }
  }

  #untilResponse(): Promise<void> {
    return new Promise((resolve) => {
      this.#onResponse = resolve;
    });
  }

  #count(): number {
    const now = Date.now();
    this.#spent = this.#spent.filter(({ until }) => until > now);
    return this.#spent.reduce((sum, { cost }) => sum + cost, 0);
  }

  #read(spent: Spent, response: Response | null): boolean {
    const { status, headers } = response ?? { headers: new Headers() };
    const [, quota, seconds] = /;q=(\d+);w=(\d+)/.exec(headers.get("RateLimit-Policy") ?? "") ?? [];
    const [, left, reset] = /;r=(\d+);t=(\d+)/.exec(headers.get("RateLimit") ?? "") ?? [];
    if (!quota || !seconds || !left) {
      // It is not known to count. If it does, a 429 tells.
      spent.until = 0;
      if (status === 200) this.#limit = { ...this.#limit, quota: Number.POSITIVE_INFINITY };
      return false;
    }
    this.#limit = { quota: Number(quota), windowMs: Number(seconds) * 1000 };
    const isRefused = status === 429;
    const windowEnd = Date.now() + this.#limit.windowMs;
    // The service has counted it some time before its response, or not at all.
    spent.until = isRefused ? 0 : windowEnd;
    // Others behind the same address have taken the rest.
    const others = this.#limit.quota - Number(left) - this.#count();
    if (others > 0)
      this.#spent.push({ cost: others, until: isRefused ? Date.now() + Number(reset) * 1000 : windowEnd });
    return isRefused;
  }
}
