import { setTimeout as sleep } from "node:timers/promises";
import {
  type Address,
  BaseError,
  type Client,
  createClient,
  custom,
  type EIP1193Parameters,
  type Hash,
  HttpRequestError,
  http,
  MethodNotFoundRpcError,
  MethodNotSupportedRpcError,
  SocketClosedError,
  TimeoutError,
  type Transport,
  WebSocketRequestError,
  webSocket,
} from "viem";
import { LogConfirmation, type LogFilter } from "./confirm-logs.ts";

type Request = { method: string; params?: unknown };
type Send = (request: Request) => Promise<unknown>;

/** How long an endpoint that did not answer is passed over while others do. */
const COOL_DOWN_MS = 30_000;
const TIMEOUT_MS = 10_000;

/** How long a node may take to learn of a block that another node of its provider has named. */
const UNKNOWN_BLOCK_ATTEMPTS = 4;
const UNKNOWN_BLOCK_WAIT_MS = 400;

/** How often the logs of a range are asked for while the node contradicts itself; Ponder begins again then. */
const CONFIRM_ATTEMPTS = 4;

/** More than the longest reorg that Ponder can undo: its finality is 240 blocks at most. */
const RECENT_BLOCKS = 512;

class WrongChainError extends Error {
  override name = "WrongChainError";
  readonly expected: number;
  readonly actual: number;

  constructor(expected: number, actual: number, endpoint: string) {
    super(`${endpoint} is on chain ${actual}, not on chain ${expected}.`);
    this.expected = expected;
    this.actual = actual;
  }
}

/**
 * A block that Ponder asked for is on no node. Ponder repeats a failed request for a minute, unless
 * the error has a code and its message says "revert": then it gives up at once and finds the reorg
 * at its next poll.
 */
class OrphanedBlockError extends Error {
  override name = "OrphanedBlockError";
  readonly code = -32001;

  constructor(hash: Hash, cause?: unknown) {
    super(`Block ${hash} is not on the chain any more: a reorg reverted it.`, { cause });
  }
}

/** A node said nothing that means anything: a proxy before it answered in its place, or it is starting. */
class EmptyAnswerError extends Error {
  override name = "EmptyAnswerError";

  constructor(method: string, url: string) {
    super(`${redactUrl(url)} answered ${method} with nothing.`);
  }
}

/** A node says two things of the same logs. It may say one of them later: Ponder asks again. */
class ContradictionError extends Error {
  override name = "ContradictionError";

  constructor({ blockHash, fromBlock, toBlock }: LogFilter) {
    const where = blockHash ? `of block ${blockHash}` : `from block ${Number(fromBlock)} to ${Number(toBlock)}`;
    super(`The logs ${where} differ when they are asked for twice.`);
  }
}

/** An endpoint's address without what may be secret in it: credentials, path, query. */
export const redactUrl = (url: string): string => {
  const { protocol, host } = new URL(url);
  return `${protocol}//${host}`;
};

const anyUrl = /\b(?:https?|wss?):\/\/[^\s"'`]+/g;

/** Cuts all URLs in an error and its causes down to their hosts: viem puts the whole URL into several of its fields. */
const redactError = (error: unknown): unknown => {
  if (!(error instanceof Error)) return error;
  const redact = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(redact);
    if (typeof value !== "string") return value;
    return value.replaceAll(anyUrl, (url) => (URL.canParse(url) ? redactUrl(url) : "(a URL)"));
  };
  for (const [name, { value, writable }] of Object.entries(Object.getOwnPropertyDescriptors(error))) {
    if (writable) Object.assign(error, { [name]: redact(value) });
  }
  redactError(error.cause);
  return error;
};

const requestTo = (url: string): Send => {
  const transport = url.startsWith("ws")
    ? webSocket(url, { timeout: TIMEOUT_MS, retryCount: 0 })
    : http(url, { timeout: TIMEOUT_MS, retryCount: 0 });
  const { request } = transport({ retryCount: 0 });
  return async (body) => {
    const answer = await request(body as EIP1193Parameters).catch((error) => {
      throw redactError(error);
    });
    if (answer === undefined) throw new EmptyAnswerError(body.method, url);
    return answer;
  };
};

/** The chain that an endpoint is on. */
export const fetchChainId = (url: string): Promise<number> => askChainId(requestTo(url), url);

const askChainId = async (send: Send, url: string): Promise<number> => {
  const answer = await send({ method: "eth_chainId" });
  if (typeof answer !== "string" || !/^0x[0-9a-f]+$/i.test(answer)) throw new EmptyAnswerError("eth_chainId", url);
  return Number(answer);
};

type Endpoint = {
  send: Send;
  restsUntil: number;
};

/** An endpoint that answers only for its chain: it is asked first, and again after it was out of reach. */
const createEndpoint = (chainId: number, url: string): Endpoint => {
  const send = requestTo(url);
  let verified: Promise<void> | undefined;

  const verify = async () => {
    const actual = await askChainId(send, url);
    if (actual !== chainId) throw new WrongChainError(chainId, actual, redactUrl(url));
  };

  return {
    restsUntil: 0,
    send: async (request) => {
      // A question that failed is not kept: it would fail all requests from then on.
      verified ??= verify().catch((error) => {
        verified = undefined;
        throw error;
      });
      try {
        await verified;
        return await send(request);
      } catch (error) {
        if (isUnreachable(error)) verified = undefined;
        throw error;
      }
    },
  };
};

const isUnreachable = (error: unknown): boolean =>
  error instanceof EmptyAnswerError ||
  error instanceof HttpRequestError ||
  error instanceof SocketClosedError ||
  error instanceof TimeoutError ||
  error instanceof WebSocketRequestError ||
  error instanceof WrongChainError;

/** The block that a request names by its hash, if it does. */
const blockHashOf = ({ method, params }: Request): Hash | undefined => {
  const [first] = Array.isArray(params) ? params : [];
  if (method === "eth_getBlockByHash" || method === "eth_getBlockReceipts") return first;
  if (method === "eth_getLogs") return filterOf({ method, params })?.blockHash;
  return undefined;
};

const filterOf = ({ params }: Request): LogFilter | undefined => (Array.isArray(params) ? params[0] : undefined);

/** The blocks of the last minutes, also those that the chain has replaced since, without their transactions. */
class RecentBlocks {
  readonly #blocks = new Map<string, object>();

  add(block: unknown) {
    if (typeof block !== "object" || block === null || !("hash" in block) || typeof block.hash !== "string") return;
    if (this.#blocks.has(block.hash)) return;
    this.#blocks.set(block.hash, { ...block, transactions: [] });
    const [oldest] = this.#blocks.keys();
    if (this.#blocks.size > RECENT_BLOCKS && oldest) this.#blocks.delete(oldest);
  }

  /** The number of a block, as the node writes it. */
  numberOf(hash: Hash): string | undefined {
    const block = this.#blocks.get(hash);
    return block && "number" in block && typeof block.number === "string" ? block.number : undefined;
  }

  /** The answer to a request for a header by its hash. */
  find({ method, params }: Request): object | undefined {
    if (method !== "eth_getBlockByHash" || !Array.isArray(params) || params[1] !== false) return undefined;
    return this.#blocks.get(params[0]);
  }
}

/** "unknown block" (geth), "header not found", "blockHash cannot be found" (Hardhat) and their like. */
const isUnknownBlock = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false;
  if (error instanceof MethodNotFoundRpcError || error instanceof MethodNotSupportedRpcError) return false;
  // viem keeps what the node said in `details`; its message repeats the request.
  const said = error instanceof BaseError ? error.details : error.message;
  return /unknown block|not currently canonical|(block|header|hash|resource).*(not|cannot be) found/i.test(said);
};

/**
 * The one way to a chain: several endpoints, the first that answers is used. An endpoint that does
 * not answer rests while others do; one on another chain is never used. When all fail, the first
 * node's own error is thrown, so that Ponder can read a provider's limits from it.
 * @param registries whose logs are taken only if two requests agree on them
 */
export const createChainTransport = (
  chainId: number,
  urls: readonly string[],
  registries: readonly Address[] = [],
): Transport => {
  const endpoints = urls.map((url) => createEndpoint(chainId, url));
  const recent = new RecentBlocks();

  const ask = async (request: Request, isAnswer: (answer: unknown) => boolean) => {
    const now = Date.now();
    // A stable sort: endpoints at rest are the last resort, in their own order.
    const inOrder = endpoints.toSorted((a, b) => Number(a.restsUntil > now) - Number(b.restsUntil > now));

    // What a node has said counts for more than that another is out of reach.
    let said: { answer: unknown } | { error: unknown } | undefined;
    let silence: unknown;
    for (const endpoint of inOrder) {
      if (said && endpoint.restsUntil > now) break;
      try {
        const answer = await endpoint.send(request);
        if (isAnswer(answer)) return answer;
        said ??= { answer };
      } catch (error) {
        if (isUnreachable(error)) {
          endpoint.restsUntil = Date.now() + COOL_DOWN_MS;
          silence ??= error;
        } else {
          said ??= { error };
        }
      }
    }
    if (said && "answer" in said) return said.answer;
    throw said ? said.error : silence;
  };

  const logs = new LogConfirmation(
    (filter) => ask({ method: "eth_getLogs", params: [filter] }, () => true),
    registries,
  );

  /** The logs of a range, if they are the same when they are asked for in another way. */
  const requestRange = async (body: Request, filter: LogFilter) => {
    for (let attempt = 1; attempt <= CONFIRM_ATTEMPTS; attempt++) {
      const asked = ask(body, () => true);
      if (await logs.bearsOutRange(filter, asked)) return asked;
      await sleep(UNKNOWN_BLOCK_WAIT_MS);
    }
    throw new ContradictionError(filter);
  };

  /** Whether a block's logs are the same when they are asked for by its number. Throws where that is not its any more. */
  const isBorneOut = async (hash: Hash, answer: unknown, isLastAttempt: boolean): Promise<boolean> => {
    const number = recent.numberOf(hash);
    if (number === undefined || (await logs.bearsOutBlock(number, answer))) return true;
    const block = await ask({ method: "eth_getBlockByNumber", params: [number, false] }, () => true);
    const isThere = typeof block === "object" && block !== null && "hash" in block && block.hash === hash;
    if (isThere || (block === null && !isLastAttempt)) return false;
    throw new OrphanedBlockError(hash);
  };

  /** What logs are asked for, where they have to be borne out. */
  const filterToConfirm = (body: Request) =>
    body.method === "eth_getLogs" && registries.length > 0 ? filterOf(body) : undefined;

  const requestByHash = async (body: Request, hash: Hash) => {
    const filter = filterToConfirm(body);
    for (let attempt = 1; ; attempt++) {
      const isLast = attempt === UNKNOWN_BLOCK_ATTEMPTS;
      try {
        // Ponder asks for headers to find where a fork begins. Of a fork that is gone by then the nodes
        // know nothing, and Ponder would lose track of what it has to undo.
        const answer = (await ask(body, (block) => block !== null)) ?? recent.find(body) ?? null;
        const isTaken = answer !== null && (!filter || (await isBorneOut(hash, answer, isLast)));
        if (isTaken || (answer === null && isLast)) return answer;
        if (filter && isLast) throw new ContradictionError(filter);
      } catch (error) {
        if (!isUnknownBlock(error)) throw error;
        if (isLast) throw new OrphanedBlockError(hash, error);
      }
      await sleep(UNKNOWN_BLOCK_WAIT_MS);
    }
  };

  /** A block that another node has named already. Without it, Ponder lets go of all that it fetched with it. */
  const requestByNumber = async (body: Request) => {
    for (let attempt = 1; ; attempt++) {
      const block = await ask(body, (answer) => answer !== null);
      recent.add(block);
      if (block !== null || attempt === UNKNOWN_BLOCK_ATTEMPTS) return block;
      await sleep(UNKNOWN_BLOCK_WAIT_MS);
    }
  };

  const request = async (body: Request) => {
    const hash = blockHashOf(body);
    if (hash !== undefined) return requestByHash(body, hash);
    const filter = filterToConfirm(body);
    if (filter) return requestRange(body, filter);
    return body.method === "eth_getBlockByNumber" ? requestByNumber(body) : ask(body, () => true);
  };

  return custom({ request });
};

/** A client that reads a chain directly, as it is now: nothing is kept. */
export const createChainClient = (chainId: number, urls: readonly string[]): Client =>
  createClient({ transport: createChainTransport(chainId, urls), cacheTime: 0 });
