import { setTimeout as sleep } from "node:timers/promises";
import {
  type Address,
  BaseError,
  type Client,
  createClient,
  custom,
  type EIP1193Parameters,
  type Hash,
  type Hex,
  HttpRequestError,
  http,
  isHex,
  MethodNotFoundRpcError,
  MethodNotSupportedRpcError,
  SocketClosedError,
  TimeoutError,
  type Transport,
  WebSocketRequestError,
  webSocket,
} from "viem";
import { accountForBloom } from "./logs-bloom.ts";
import { idOf, inOrder, type Log, type LogFilter, logsIn, WholeRanges } from "./range-logs.ts";

type Request = { method: string; params?: unknown };
type Send = (request: Request) => Promise<unknown>;

/** How long an endpoint that did not answer is passed over while others do. */
const COOL_DOWN_MS = 30_000;
const TIMEOUT_MS = 10_000;

/** How long a node may take to learn of a block that another node of its provider has named. */
const UNKNOWN_BLOCK_ATTEMPTS = 4;
const UNKNOWN_BLOCK_WAIT_MS = 400;

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

  constructor(hash: Hash, cause: unknown) {
    super(`Block ${hash} is on no node any more: a reorg reverted it.`, { cause });
  }
}

/** A node said nothing that means anything: a proxy before it answered in its place, or it is starting. */
class EmptyAnswerError extends Error {
  override name = "EmptyAnswerError";

  constructor(method: string, url: string) {
    super(`${redactUrl(url)} answered ${method} with nothing.`);
  }
}

/** A node has a block, and not all of its logs. Ponder asks again, for a minute and then with the next block. */
class MissingLogsError extends Error {
  override name = "MissingLogsError";

  constructor(hash: Hash) {
    super(`No node has all logs of block ${hash}: its bloom filter, or another answer, knows of more.`);
  }
}

/** A node is asked for logs of blocks that it does not have yet: many would answer that there are none. */
class BehindError extends Error {
  override name = "BehindError";

  constructor(endpoint: string, newest: bigint, wanted: bigint) {
    super(`${endpoint} is at block ${newest}, and cannot tell the logs up to block ${wanted}.`);
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
  name: string;
  send: Send;
  restsUntil: number;
};

/**
 * An endpoint that answers only for its chain, and for no blocks that it does not have: it is asked first, and again
 * after it was out of reach.
 */
const createEndpoint = (chainId: number, url: string): Endpoint => {
  const name = redactUrl(url);
  const send = requestTo(url);
  let verified: Promise<void> | undefined;
  let newest = -1n;

  const verify = async () => {
    const actual = await askChainId(send, url);
    if (actual !== chainId) throw new WrongChainError(chainId, actual, name);
  };

  const reach = async (block: bigint) => {
    if (newest < block) newest = BigInt(String(await send({ method: "eth_blockNumber" })));
    if (newest < block) throw new BehindError(name, newest, block);
  };

  return {
    name,
    restsUntil: 0,
    send: async (request) => {
      // A question that failed is not kept: it would fail all requests from then on.
      verified ??= verify().catch((error) => {
        verified = undefined;
        throw error;
      });
      try {
        await verified;
        const last = lastBlockOf(request);
        if (last !== undefined) await reach(last);
        return await send(request);
      } catch (error) {
        if (isUnreachable(error)) {
          verified = undefined;
          newest = -1n;
        }
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
const blockHashOf = (request: Request): Hash | undefined => {
  const { method } = request;
  const first = firstParameter(request);
  if (method === "eth_getBlockByHash" || method === "eth_getBlockReceipts") return first;
  if (method === "eth_getLogs") return first?.blockHash;
  return undefined;
};

const firstParameter = ({ params }: Request) => (Array.isArray(params) ? params[0] : undefined);

/** The last block of those whose logs a request asks for by their numbers. */
const lastBlockOf = (request: Request): bigint | undefined => {
  if (request.method !== "eth_getLogs") return undefined;
  const to = firstParameter(request)?.toBlock;
  return typeof to === "string" && to.startsWith("0x") ? BigInt(to) : undefined;
};

/** Whether a request asks for all logs of a block. */
const isForWholeBlock = (request: Request): boolean => {
  const { blockHash, address, topics } = firstParameter(request) ?? {};
  return request.method === "eth_getLogs" && blockHash !== undefined && address === undefined && topics === undefined;
};

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

  /** The answer to a request for a header by its hash. */
  find({ method, params }: Request): object | undefined {
    if (method !== "eth_getBlockByHash" || !Array.isArray(params) || params[1] !== false) return undefined;
    return this.get(params[0]);
  }

  get(hash: Hash): object | undefined {
    return this.#blocks.get(hash);
  }
}

/** "unknown block" (geth), "header not found", "blockHash cannot be found" (Hardhat) and their like. */
const isUnknownBlock = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false;
  if (error instanceof MethodNotFoundRpcError || error instanceof MethodNotSupportedRpcError) return false;
  if (error instanceof BehindError) return true;
  // viem keeps what the node said in `details`; its message repeats the request.
  const said = error instanceof BaseError ? error.details : error.message;
  return /unknown block|not currently canonical|(block|header|hash|resource).*(not|cannot be) found/i.test(said);
};

/**
 * The one way to a chain: several endpoints, the first that answers is used. An endpoint that does
 * not answer rests while others do; one on another chain is never used. When all fail, the first
 * node's own error is thrown, so that Ponder can read a provider's limits from it.
 *
 * Logs that a node does not have would be changes that are lost: those of a block have to account for its bloom filter
 * and for what another request names, and those of a range of blocks are asked for twice.
 * @param registries whose logs in a block are asked for by its number too: several look like one in a bloom filter
 */
export const createChainTransport = (
  chainId: number,
  urls: readonly string[],
  registries: readonly Address[] = [],
  unknownBlockWaitMs = UNKNOWN_BLOCK_WAIT_MS,
): Transport => {
  const endpoints = urls.map((url) => createEndpoint(chainId, url));
  const recent = new RecentBlocks();
  const incomplete = new Set<string>();

  const askOne = async (endpoint: Endpoint, request: Request) => {
    try {
      return await endpoint.send(request);
    } catch (error) {
      if (isUnreachable(error)) endpoint.restsUntil = Date.now() + COOL_DOWN_MS;
      throw error;
    }
  };

  const ask = async (request: Request, isAnswer: (answer: unknown) => boolean) => {
    const now = Date.now();
    // A stable sort: endpoints at rest are the last resort, in their own order.
    const byRest = endpoints.toSorted((a, b) => Number(a.restsUntil > now) - Number(b.restsUntil > now));

    // What a node has said counts for more than that another is out of reach.
    let said: { answer: unknown } | { error: unknown } | undefined;
    let silence: unknown;
    for (const endpoint of byRest) {
      if (said && endpoint.restsUntil > now) break;
      try {
        const answer = await askOne(endpoint, request);
        if (isAnswer(answer)) return answer;
        said ??= { answer };
      } catch (error) {
        if (isUnreachable(error)) silence ??= error;
        else said ??= { error };
      }
    }
    if (said && "answer" in said) return said.answer;
    throw said ? said.error : silence;
  };

  const ranges = new WholeRanges((filter) => ask({ method: "eth_getLogs", params: [filter] }, () => true));

  /**
   * A node that lacks logs says that there are none: what either of two answers has is there. They are those of two
   * endpoints, or of one that is asked twice, in other words.
   */
  const askTwiceForLogs = async (request: Request, filter: LogFilter) => {
    const awake = endpoints.filter(({ restsUntil }) => restsUntil <= Date.now()).slice(0, 2);
    const settled = await Promise.allSettled(awake.length === 2 ? awake.map((one) => askOne(one, request)) : []);
    let answers = awake.flatMap(({ name }, index) => {
      const answer = settled[index];
      return answer?.status === "fulfilled" ? { name, logs: logsIn(answer.value) } : [];
    });
    if (answers.length < 2) {
      const told = await Promise.all([ask(request, () => true), ranges.ask(filter)]);
      answers = told.map((logs) => ({ name: "An endpoint", logs: logsIn(logs) }));
    }
    const all = new Map(answers.flatMap(({ logs }) => logs.map((log) => [idOf(log), log] as const)));
    for (const { name, logs } of answers) {
      if (logs.length === all.size || incomplete.has(name)) continue;
      // Once: such an endpoint lacks them again and again.
      incomplete.add(name);
      console.warn(`${name} lacks logs of chain ${chainId} that were in another answer; they were taken from there.`);
    }
    return [...all.values()].sort(inOrder);
  };

  const bloomOf = async (hash: Hash): Promise<Hex> => {
    const header = { method: "eth_getBlockByHash", params: [hash, false] };
    const block = recent.get(hash) ?? (await ask(header, (answer) => answer !== null));
    // Without the block nothing is known of its logs; the node says so when it is asked for them.
    return typeof block === "object" && block && "logsBloom" in block && isHex(block.logsBloom)
      ? block.logsBloom
      : "0x0";
  };

  /** Whether the receipts of a block have no log that is not among these: on some chains a bloom filter has more than its logs. */
  const accountForReceipts = async (logs: readonly Log[], hash: Hash): Promise<boolean> => {
    const request = { method: "eth_getBlockReceipts", params: [hash] };
    const receipts = await ask(request, (answer) => answer !== null).catch(() => null);
    const emitted: Log[] = Array.isArray(receipts) ? receipts.flatMap((receipt) => logsIn(receipt?.logs)) : [];
    const known = new Set(logs.map(idOf));
    return emitted.length > 0 && emitted.every((log) => known.has(idOf(log)));
  };

  /** Whether the registries have no log in a block that is not among these, when they are asked for by its number. */
  const accountForRegistries = async (logs: readonly Log[], hash: Hash): Promise<boolean> => {
    const block = recent.get(hash);
    if (registries.length === 0 || !block || !("number" in block)) return true;
    const filter = { address: registries, fromBlock: block.number, toBlock: block.number };
    const others = logsIn(await ask({ method: "eth_getLogs", params: [filter] }, () => true));
    const known = new Set(logs.map(idOf));
    // Those of another block of that number are no matter of this one.
    return others.every((log) => log.blockHash !== hash || known.has(idOf(log)));
  };

  const askForBlockLogs = async (request: Request, hash: Hash) => {
    const bloom = await bloomOf(hash);
    const areAll = (logs: unknown) => accountForBloom(logsIn(logs), bloom);
    const answer = await ask(request, areAll);
    const logs = logsIn(answer);
    if (!areAll(logs) && !(await accountForReceipts(logs, hash))) throw new MissingLogsError(hash);
    if (!(await accountForRegistries(logs, hash))) throw new MissingLogsError(hash);
    return answer;
  };

  const askForBlock = async (body: Request, hash: Hash) => {
    if (isForWholeBlock(body)) return askForBlockLogs(body, hash);
    // Ponder asks for headers to find where a fork begins. Of a fork that is gone by then the nodes
    // know nothing, and Ponder would lose track of what it has to undo.
    return (await ask(body, (block) => block !== null)) ?? recent.find(body) ?? null;
  };

  /** A block that another node has named already. Without it, Ponder lets go of all that it fetched with it. */
  const requestByNumber = async (body: Request) => {
    for (let attempt = 1; ; attempt++) {
      const block = await ask(body, (answer) => answer !== null);
      recent.add(block);
      if (block !== null || attempt === UNKNOWN_BLOCK_ATTEMPTS) return block;
      await sleep(unknownBlockWaitMs);
    }
  };

  const request = async (body: Request) => {
    const hash = blockHashOf(body);
    if (hash === undefined) {
      if (lastBlockOf(body) !== undefined) return askTwiceForLogs(body, firstParameter(body));
      return body.method === "eth_getBlockByNumber" ? requestByNumber(body) : ask(body, () => true);
    }

    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await askForBlock(body, hash);
        if (answer !== null || attempt === UNKNOWN_BLOCK_ATTEMPTS) return answer;
      } catch (error) {
        const isLast = attempt === UNKNOWN_BLOCK_ATTEMPTS;
        if (error instanceof MissingLogsError ? isLast : !isUnknownBlock(error)) throw error;
        if (isLast) throw new OrphanedBlockError(hash, error);
      }
      await sleep(unknownBlockWaitMs);
    }
  };

  return custom({ request });
};

/** A client that reads a chain directly, as it is now: nothing is kept. */
export const createChainClient = (chainId: number, urls: readonly string[]): Client =>
  createClient({ transport: createChainTransport(chainId, urls), cacheTime: 0 });
