import {
  BaseError,
  type Hash,
  HttpRequestError,
  MethodNotFoundRpcError,
  MethodNotSupportedRpcError,
  SocketClosedError,
  TimeoutError,
  WebSocketRequestError,
} from "viem";
import { redactUrl } from "./redact.ts";

export class WrongChainError extends Error {
  override name = "WrongChainError";
  readonly actual: number;

  constructor(expected: number, actual: number, endpoint: string) {
    super(`${endpoint} is on chain ${actual}, not on chain ${expected}.`);
    this.actual = actual;
  }
}

/** An endpoint returned no result: a proxy answered for the node, or the node is starting. */
export class EmptyResponseError extends Error {
  override name = "EmptyResponseError";

  constructor(method: string, url: string) {
    super(`${redactUrl(url)} returned an empty response to ${method}.`);
  }
}

/** A node lacks the last blocks of a requested range. Many nodes would return an empty list instead of an error. */
export class NodeBehindError extends Error {
  override name = "NodeBehindError";

  constructor(endpoint: string, newest: bigint, wanted: bigint) {
    super(`${endpoint} is at block ${newest}, and cannot return the logs up to block ${wanted}.`);
  }
}

/** An endpoint refuses requests for a while. Ponder recognises the code, which viem keeps, and sends fewer requests. */
export class RateLimitError extends BaseError {
  override name = "RateLimitError";
  readonly code = 429;

  constructor(endpoint: string, cause: unknown) {
    super(`${endpoint} limits the rate of requests: ${readMessage(cause)}`);
  }
}

/**
 * No node has a block that Ponder requested. Ponder retries a failed request for a minute, unless the error has a code
 * and its message contains "revert": then it gives up at once and finds the reorg at its next poll.
 */
export class OrphanedBlockError extends Error {
  override name = "OrphanedBlockError";
  readonly code = -32001;

  constructor(hash: Hash, cause: unknown) {
    super(`No node has block ${hash} any more: a reorg reverted it.`, { cause });
  }
}

/** A node has a block without all of its logs. Ponder retries for a minute, and again with the next block. */
export class MissingLogsError extends Error {
  override name = "MissingLogsError";

  constructor(hash: Hash) {
    super(`No node has all logs of block ${hash}: its bloom filter, or another response, has more.`);
  }
}

export const isUnreachable = (error: unknown): boolean =>
  error instanceof EmptyResponseError ||
  error instanceof HttpRequestError ||
  error instanceof RateLimitError ||
  error instanceof SocketClosedError ||
  error instanceof TimeoutError ||
  error instanceof WebSocketRequestError ||
  error instanceof WrongChainError;

/** True if a node failed, and may answer the same request later. */
export const isInternal = (error: unknown): boolean => readCode(error) === -32603;

/** True if an error, or one of its causes, matches. */
export const hasCause = (error: unknown, matches: (cause: unknown) => boolean): boolean =>
  error instanceof BaseError ? error.walk(matches) !== null : matches(error);

/** HTTP statuses and codes of JSON-RPC errors. -32005 also means "too many results". */
const RATE_LIMIT_CODES = [402, 429, -32005, -32007, -32011, -32012, -32016, -32024, -32029, -32046, -32090];
const RATE_LIMIT_WORDS =
  /rate.?limit|too many requests|request (limit|count|rate)|limits? the rate|throttl|free tier|(exceeded|reached|used up|out of).*(credit|capacity|quota|requests|plan|limit)|(credit|capacity|quota|daily|monthly|usage).*(exceeded|reached|exhausted|used up|limit)|plan allows/i;
const RESULT_WORDS = /range|results?\b|logs?\b|response (size|is too)|too (many|large|wide|big)(?! requests)/i;

/** True if an endpoint refuses every request for a while, and not this one. */
export const isRateLimit = (error: unknown): boolean => {
  if (error instanceof HttpRequestError && (error.status === 429 || error.status === 402)) return true;
  const message = readMessage(error);
  if (RESULT_WORDS.test(message)) return false;
  return RATE_LIMIT_CODES.includes(readCode(error) ?? 0) || RATE_LIMIT_WORDS.test(message);
};

/**
 * True if an endpoint may return the logs of fewer blocks. Every provider words its refusal differently, so every error
 * of the node itself counts, and the HTTP statuses that providers use for a response that is too large.
 */
export const isRefusedRange = (error: unknown): boolean => {
  if (error instanceof NodeBehindError) return false;
  if (error instanceof HttpRequestError) return [400, 413, 414, 422].includes(error.status ?? 0);
  return !isUnreachable(error);
};

/** True if an endpoint did not answer in time: it may be down, or slow because the request is too large. */
export const isSlow = (error: unknown): boolean =>
  error instanceof TimeoutError ||
  (error instanceof HttpRequestError &&
    ([408, 504, 524].includes(error.status ?? 0) || error.cause?.constructor === DOMException));

/** Recognises "unknown block" (geth), "header not found", "blockHash cannot be found" (Hardhat) and similar errors. */
export const isUnknownBlock = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false;
  if (error instanceof MethodNotFoundRpcError || error instanceof MethodNotSupportedRpcError) return false;
  if (error instanceof NodeBehindError) return true;
  return /unknown block|not currently canonical|block is out of range|doesn't exist yet|could not be found|(block|header|hash|resource).*(not|cannot be) found/i.test(
    readMessage(error),
  );
};

/** Reads the node's own message, which viem keeps in `details`. viem's message repeats the request. */
const readMessage = (error: unknown): string => {
  if (error instanceof BaseError) return error.details || error.shortMessage;
  return error instanceof Error ? error.message : String(error);
};

const readCode = (error: unknown): number | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "number" ? error.code : undefined;
