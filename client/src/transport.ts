import { sleep, withTimeout } from "./abortable.ts";
import { type Limit, RateLimit, type Turn } from "./rate-limit.ts";
import { fromProblem, notAnAnswer, type Problem, RegistryError } from "./registry-error.ts";

export type TransportOptions = {
  /** The address of the service. */
  url: string;
  /** Lifts the rate limit. A secret: never in a page that others can read. */
  apiKey?: string;
  /** Milliseconds that one try may take; 10,000 by default. */
  timeoutMs?: number;
  /** Retries after a temporary failure; 3 by default. */
  retries?: number;
  /** Called when a request waits: for the rate limit, or to be sent again. */
  onWait?: (wait: Wait) => void;
  /** A fetch() of your own. */
  fetch?: typeof fetch;
};

export type Wait = {
  ms: number;
  /** The failure after which it is sent again; null for the rate limit. */
  error: RegistryError | null;
  /** The rate limit, if it waits for that. */
  limit: Limit | null;
};

export type Request = {
  /** With its query. */
  path: string;
  /** Builds what is sent as JSON. @param granted - how many requests it may count as, at most `cost` */
  body?: (granted: number) => unknown;
  /** How many requests it counts as, at most. */
  cost?: number;
  signal?: AbortSignal | undefined;
};

export type JsonResponse = { json: unknown; headers: Headers };

/** A longer wait is an error: a user does not wait for it. */
const MAX_WAIT_MS = 30_000;

/** Sends requests to the service, within its rate limit, and again if they fail for now. */
export class Transport {
  readonly #options: TransportOptions;
  readonly #rateLimit = new RateLimit((ms, limit, signal) => this.wait({ ms, error: null, limit }, signal));

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  async send(request: Request): Promise<JsonResponse> {
    const { retries = 3 } = this.#options;
    for (let tries = 0; ; tries++) {
      const turn = await this.#takeTurn(request);
      let isRefused = false;
      try {
        return await this.#sendOnce(request, turn.granted, (response) => {
          isRefused = turn.read(response);
        });
      } catch (error) {
        if (!(error instanceof RegistryError && error.isRetryable && tries < retries)) throw error;
        // The rate limit waits before the next turn.
        if (isRefused) continue;
        if (error.retryAfterMs > MAX_WAIT_MS) throw error;
        await this.wait({ ms: findDelay(tries, error.retryAfterMs), error, limit: null }, request.signal);
      }
    }
  }

  async wait(wait: Wait, signal: AbortSignal | undefined): Promise<void> {
    this.#options.onWait?.(wait);
    await sleep(wait.ms, signal);
  }

  #takeTurn({ path, body, cost = 1, signal }: Request): Turn | Promise<Turn> {
    // A key lifts the limit of all but v1's own operations. The networks have none.
    const isLimited = path !== "/networks" && (!this.#options.apiKey || path.startsWith("/registry/v1/"));
    return isLimited ? this.#rateLimit.take(cost, signal, body ? 1 : cost) : { granted: cost, read: () => false };
  }

  async #sendOnce(
    { path, body, signal }: Request,
    granted: number,
    onResponse: (response: Response | null) => void,
  ): Promise<JsonResponse> {
    let response: Response | null = null;
    try {
      return await withTimeout(this.#options.timeoutMs ?? 10_000, signal, async (ownSignal) => {
        response = await this.#fetch(path, body?.(granted), ownSignal);
        return await readResponse(response);
      });
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (error instanceof RegistryError) throw error;
      throw new RegistryError(`The service does not answer: ${describeFailure(error)}`, { cause: error });
    } finally {
      onResponse(response);
    }
  }

  #fetch(path: string, body: unknown, signal: AbortSignal): Promise<Response> {
    const { url, apiKey, fetch = globalThis.fetch } = this.#options;
    return fetch(url.replace(/\/$/, "") + path, {
      method: body === undefined ? "GET" : "POST",
      headers: {
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...(apiKey !== undefined && { "X-API-KEY": apiKey }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      // A redirect would take the key along.
      redirect: "error",
      signal,
    });
  }
}

/** Twice as long each time, and random, so that clients do not come back together. */
export const findDelay = (tries: number, retryAfterMs: number): number =>
  Math.max(retryAfterMs, 250 * 2 ** tries) * (1 + Math.random() / 2);

/** Reads an answer, or throws the problem. */
export const readResponse = async (response: Response): Promise<JsonResponse> => {
  const { status, headers } = response;
  const text = await response.text();
  const json = parseJson(text);
  if (status === 200) {
    if (json === undefined) throw notAnAnswer(text);
    return { json, headers };
  }
  const retryAfterMs = Number(headers.get("Retry-After") ?? 0) * 1000 || 0;
  if (isProblem(json)) throw fromProblem(json, { retryAfterMs });
  // A proxy's page, or the page of another server.
  throw new RegistryError(`HTTP ${status}, and not an answer of the service.`, { status, retryAfterMs });
};

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const isProblem = (json: unknown): json is Problem =>
  typeof json === "object" && json !== null && "detail" in json && "status" in json && "type" in json;

/** Node's fetch() has the reason as its cause. */
export const describeFailure = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error && error.cause.message
    ? `${error.message}: ${error.cause.message}`
    : error.message;
};
