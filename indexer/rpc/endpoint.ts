import { setTimeout as sleep } from "node:timers/promises";
import {
  type EIP1193Parameters,
  HttpRequestError,
  http,
  isHex,
  numberToHex,
  TimeoutError,
  WebSocketRequestError,
  webSocket,
  withTimeout,
} from "viem";
import { connectSocket } from "./connect-socket.ts";
import { type JsonRpcRequest, lastRequestedBlock } from "./json-rpc.ts";
import { RangeLimit } from "./range-limit.ts";
import { isBlock } from "./recent-blocks.ts";
import { redactError, redactUrl } from "./redact.ts";
import {
  EmptyResponseError,
  isRateLimit,
  isUnreachable,
  NodeBehindError,
  RateLimitError,
  WrongChainError,
} from "./rpc-errors.ts";

type Send = (request: JsonRpcRequest) => Promise<unknown>;

/** Time that an unreachable endpoint is skipped while others answer. */
const COOL_DOWN_MS = 30_000;
/** Time until the headers of a response, and until the end of its body. */
const TIMEOUT_MS = 10_000;
const BODY_TIMEOUT_MS = 30_000;
/** Pause after a rate limit. It doubles with each further one. */
const FIRST_REST_MS = 500;
const MAX_REST_MS = 30_000;

/**
 * Limits the time until the end of a response's body; viem's own timeout ends with its headers. Node 20 may collect the
 * signals of AbortSignal.timeout() and any() as garbage before they fire.
 */
const fetchBefore = (timeoutMs: number): typeof fetch => {
  return (input, init = {}) => {
    const controller = new AbortController();
    init.signal?.addEventListener("abort", () => controller.abort(init.signal?.reason), { once: true });
    const timeout = () => controller.abort(new DOMException("The response did not end in time.", "TimeoutError"));
    setTimeout(timeout, timeoutMs).unref();
    return fetch(input, { ...init, signal: controller.signal });
  };
};

const createHttpRequest = (url: string) =>
  http(url, {
    timeout: TIMEOUT_MS,
    retryCount: 0,
    fetchFn: fetchBefore(BODY_TIMEOUT_MS),
    // The provider has a limit of its own. viem's default is 10 MB.
    maxResponseBodySize: false,
  })({ retryCount: 0 }).request;

/** Connects again when it is used. viem's own way prints the URL with its secrets, and gives up after five attempts. */
const createSocketRequest = (url: string) => {
  const options = { timeout: TIMEOUT_MS, retryCount: 0, reconnect: { attempts: 0 } };
  const transport = webSocket(url, options)({ retryCount: 0 });
  let connecting: ReturnType<typeof connectSocket> | undefined;
  const connect = () => {
    // One attempt at a time: viem would open a connection for each request.
    connecting ??= connectSocket(url, transport).finally(() => {
      connecting = undefined;
    });
    return connecting.catch(({ message }: { message?: string }) => {
      throw new WebSocketRequestError({ url, cause: new Error(message || "The connection failed.") });
    });
  };
  return async (body: EIP1193Parameters) => {
    const { socket, close } = await connect();
    if (socket.readyState > socket.OPEN) {
      close();
      await connect();
    }
    return transport.request(body);
  };
};

const createSend = (url: string): Send => {
  const request = url.startsWith("ws") ? createSocketRequest(url) : createHttpRequest(url);
  return async (body) => {
    const result = await request(body as EIP1193Parameters).catch((error) => {
      throw redactError(error);
    });
    if (result === undefined) throw new EmptyResponseError(body.method, url);
    return result;
  };
};

/** Fetches the id of the chain that an endpoint is on. All other requests wait for it, so a stalled body ends early. */
export const fetchChainId = async (url: string, send = createSend(url)): Promise<number> => {
  const body = { method: "eth_chainId" };
  const errorInstance = new TimeoutError({ body, url: redactUrl(url) });
  const result = await withTimeout(() => send(body), { timeout: TIMEOUT_MS, errorInstance });
  if (typeof result !== "string" || !/^0x[0-9a-f]+$/i.test(result)) throw new EmptyResponseError("eth_chainId", url);
  return Number(result);
};

/**
 * A response is late after four times the usual duration of its method, but not before half a second. The first one of a
 * method is late after 5 s.
 */
const LATE_FACTOR = 4;
const MIN_LATE_MS = 500;
const FIRST_USUAL_MS = 1_250;
/** Weight of the last response in the usual duration. */
const LAST_WEIGHT = 1 / 8;

/** Returns true if a promise does not settle in time. */
const isLate = async (promise: Promise<unknown>, ms: number): Promise<boolean> => {
  const timer = new AbortController();
  const waited = sleep(ms, true, { signal: timer.signal }).catch(() => false);
  const settled = promise.then(
    () => false,
    () => false,
  );
  return Promise.race([settled, waited]).finally(() => timer.abort());
};

/**
 * An endpoint of one chain. It verifies its chain id before the first request and after each outage, refuses requests for
 * logs of blocks that it does not have yet, pauses after a rate limit, and repeats a request whose response is late.
 */
export class Endpoint {
  readonly name: string;
  readonly range: RangeLimit;
  /** True for an endpoint that lacks old logs. It is used for new blocks only. */
  lacksHistory = false;
  readonly #chainId: number;
  readonly #url: string;
  readonly #send: Send;
  #verified: Promise<void> | undefined;
  #newestBlock = -1n;
  #coolsDownUntil = 0;
  #restsUntil = 0;
  #restMs = FIRST_REST_MS;
  /** Duration of a request by method, as a moving average. */
  readonly #usualMs = new Map<string, number>();
  #isRepeating = false;

  /** @param logsRange the range of a request for logs to begin with */
  constructor(chainId: number, url: string, logsRange?: number) {
    this.name = redactUrl(url);
    this.range = new RangeLimit(logsRange);
    this.#chainId = chainId;
    this.#url = url;
    this.#send = createSend(url);
  }

  isCoolingDown(now: number): boolean {
    return Math.max(this.#coolsDownUntil, this.#restsUntil) > now;
  }

  async request(request: JsonRpcRequest): Promise<unknown> {
    const restMs = this.#restsUntil - Date.now();
    if (restMs > 0) await sleep(restMs);
    try {
      await this.#verifyChainOnce();
      if (request.method === "eth_chainId") return numberToHex(this.#chainId);
      const lastBlock = lastRequestedBlock(request);
      if (lastBlock !== undefined) await this.#requireBlock(lastBlock);
      const result = await this.#sendInTime(request);
      this.#restMs = FIRST_REST_MS;
      this.#recordBlock(result);
      return result;
    } catch (error) {
      if (isRateLimit(error)) throw this.#rest(error);
      if (isUnreachable(error)) this.#startCoolDown();
      throw error;
    }
  }

  /** Providers lose some requests, or stall in the body of a response. Only one request is repeated at a time. */
  async #sendInTime(request: JsonRpcRequest): Promise<unknown> {
    const startedAt = performance.now();
    const usualMs = this.#usualMs.get(request.method) ?? FIRST_USUAL_MS;
    const first = this.#send(request);
    const repeats = (await isLate(first, Math.max(MIN_LATE_MS, LATE_FACTOR * usualMs))) && !this.#isRepeating;
    const result = await (repeats ? this.#sendAgain(first, request) : first);
    const ms = performance.now() - startedAt;
    this.#usualMs.set(request.method, usualMs + LAST_WEIGHT * (ms - usualMs));
    return result;
  }

  async #sendAgain(first: Promise<unknown>, request: JsonRpcRequest): Promise<unknown> {
    this.#isRepeating = true;
    const again = this.#send(request);
    // If both fail, the first failure counts.
    return Promise.any([first, again])
      .catch(() => first)
      .finally(() => {
        this.#isRepeating = false;
      });
  }

  /** Requests sent at the same time are refused together: only the first refusal lengthens the pause. */
  #rest(error: unknown): RateLimitError {
    const now = Date.now();
    if (this.#restsUntil <= now) {
      this.#restsUntil = now + (readRetryAfterMs(error) ?? this.#restMs);
      this.#restMs = Math.min(2 * this.#restMs, MAX_REST_MS);
    }
    return new RateLimitError(this.name, error);
  }

  #startCoolDown() {
    this.#verified = undefined;
    this.#newestBlock = -1n;
    this.#coolsDownUntil = Date.now() + COOL_DOWN_MS;
  }

  #verifyChainOnce(): Promise<void> {
    // A rejected promise is not kept: it would fail all later requests.
    this.#verified ??= this.#verifyChain().catch((error) => {
      this.#verified = undefined;
      throw error;
    });
    return this.#verified;
  }

  async #verifyChain(): Promise<void> {
    const actual = await fetchChainId(this.#url, this.#send);
    if (actual !== this.#chainId) throw new WrongChainError(this.#chainId, actual, this.name);
  }

  /** An endpoint that has returned a block has reached it. */
  #recordBlock(result: unknown) {
    if (!isBlock(result) || !isHex(result.number)) return;
    const number = BigInt(result.number);
    if (number > this.#newestBlock) this.#newestBlock = number;
  }

  async #requireBlock(block: bigint): Promise<void> {
    if (this.#newestBlock < block) this.#newestBlock = BigInt(String(await this.#send({ method: "eth_blockNumber" })));
    if (this.#newestBlock < block) throw new NodeBehindError(this.name, this.#newestBlock, block);
  }
}

/** Reads the pause that a provider asks for, up to our own maximum. */
const readRetryAfterMs = (error: unknown): number | undefined => {
  const seconds =
    error instanceof HttpRequestError ? Number(error.headers?.get("Retry-After") ?? Number.NaN) : Number.NaN;
  return seconds > 0 ? Math.min(seconds * 1000, MAX_REST_MS) : undefined;
};
