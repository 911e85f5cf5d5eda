import { setTimeout as sleep } from "node:timers/promises";
import type { LocalChain } from "../../local/chain.ts";
import {
  type Behaviour,
  type Dialect,
  dialects,
  type LogIndex,
  type ProviderFault,
  simulateProvider,
} from "../../test/support/provider.ts";
import { createRandom, type Random } from "../../test/support/random.ts";
import {
  askNode,
  launchHeadSocket,
  launchRpcProxy,
  type RpcRequest,
  type RpcResponse,
} from "../../test/support/rpc-proxy.ts";
import type { Rpc } from "../stack.ts";

/** Possible shares of failing calls. One is drawn for each endpoint. */
const FAILING_SHARES = [0.02, 0.03, 0.04, 0.05] as const;
const FALSE_SHARE = 0.03;
const LONGEST_FALSE_MS = 1_500;
const FAILURES = ["HTTP 500", "HTTP 503", "empty response", "internal error", "cut JSON", "closed connection"] as const;
/** The indexer waits for the headers of a response for 10 s, and for the end of its body for 30 s. */
const SLOW_FAILURES = ["no response", "stalled body"] as const;
const SLOW_SHARE = 0.03;
const NEVER_MS = 11_000;
const KEPT_HEADS = 12;

const DIALECTS = Object.entries<Dialect>(dialects);
const MAX_LOGS = [20, 50, 200] as const;
/** About 20 logs. */
const MAX_BYTES = 15_000;
type Pace = {
  /** The shortest and the longest phase, in calls or milliseconds. */
  phase: readonly [number, number];
  unit: "calls" | "ms";
  maxBlocks: readonly [number, ...number[]];
  /** Shares of calls that a rate limit or a quota refuses. */
  refusedShares: readonly [number, ...number[]];
};
const LONG_RUN: Pace = {
  phase: [2_000, 8_000],
  unit: "ms",
  maxBlocks: [10, 500, 2_000, 10_000],
  refusedShares: [0.02, 0.1, 1],
};
/**
 * Meets the same faults in less time, on any machine. Ranges of 10 blocks, and endpoints that refuse everything, mostly
 * mean waiting.
 */
const SHORT_RUN: Pace = { phase: [3, 20], unit: "calls", maxBlocks: [100, 500, 2_000], refusedShares: [0.1, 0.2] };
/**
 * Without "missing bits": such a log is found up to 12 blocks or 30 s later, by design, and the reader compares every
 * answer until then.
 */
const BLOOMS = [undefined, "zeros", "ones"] as const;
const LOG_INDEX_SHARE = 0.3;
/** More logs than one block has: those that a response about one block lacks are in no other response. */
const TRUNCATED_LOGS = [50, 100, 200] as const;

type RpcProxy = Awaited<ReturnType<typeof launchRpcProxy>>;
type Socket = Awaited<ReturnType<typeof launchHeadSocket>>;
type Failure = (typeof FAILURES)[number] | (typeof SLOW_FAILURES)[number];
type Refusal = "rate limit" | "quota";
type FalseAnswer = { until: number; distort: (truth: unknown) => unknown };
type Options = {
  /** True to announce new blocks over a WebSocket too. */
  hasSocket?: boolean;
  /** The first block whose logs the endpoint has. */
  logsSince?: number;
  /** True if logs are missing in answers by address, false if in all others. */
  liesByAddress: boolean;
  /** True for short phases, and for log indexes that have all logs: to repair an index takes minutes. */
  isShortRun: boolean;
};

/**
 * An RPC endpoint of a chain with the faults of real ones. In each phase it behaves like another provider, with its limits
 * and refusals. Some calls fail, and some answers are false.
 */
export class UnreliableRpc implements Rpc {
  readonly chainId: number;
  readonly url: string;
  readonly #proxy: RpcProxy;
  readonly #socket: Socket | undefined;
  readonly #target: string;
  readonly #draw: (use: string, count: number) => Random;
  readonly #failingShare: number;
  /** How it behaves in calm phases. */
  readonly #calm: Behaviour;
  readonly #liesByAddress: boolean;
  readonly #isShortRun: boolean;
  readonly #pace: Pace;
  #behaviour: Behaviour = {};
  #phaseEndsAt = 0;
  readonly #counts = new Map<string, number>();
  /** False answers in effect, by request. */
  readonly #falseAnswers = new Map<string, FalseAnswer>();
  /** Newest blocks that it has returned, including ones that the chain has replaced since. */
  #heads: unknown[] = [];
  #isCalm = true;
  isDown = false;
  readonly calls = { all: 0, failed: 0, falseAnswers: 0 };
  readonly #faults = new Map<string, number>();
  /** A line for each phase so far. */
  readonly phases: string[] = [];

  private constructor(
    seed: number,
    { chainId, url }: LocalChain,
    { proxy, socket }: { proxy: RpcProxy; socket: Socket | undefined },
    { logsSince = 0, liesByAddress, isShortRun }: Options,
  ) {
    [this.chainId, this.url, this.#target, this.#proxy, this.#socket] = [chainId, proxy.url, url, proxy, socket];
    this.#draw = (use, count) => createRandom(seed, "rpc", chainId, logsSince, use, count);
    this.#failingShare = this.#draw("failing", 0).pick(FAILING_SHARES);
    // Hardhat has no eth_getBlockReceipts; the simulated provider may. The blooms of a phase are remembered after it, so
    // this is the same in all phases.
    this.#calm = {
      logsSince,
      lacksReceipts: this.#draw("receipts", 0).chance(0.5),
      report: (fault) => this.#count(fault),
    };
    this.#liesByAddress = liesByAddress;
    this.#isShortRun = isShortRun;
    this.#pace = isShortRun ? SHORT_RUN : LONG_RUN;
    proxy.intercept = (request) => this.#answer(request);
  }

  static async start(seed: number, local: LocalChain, options: Options): Promise<UnreliableRpc> {
    const proxy = await launchRpcProxy(local.url);
    const socket = options.hasSocket ? await launchHeadSocket(local.url) : undefined;
    return new UnreliableRpc(seed, local, { proxy, socket }, options);
  }

  get socketUrl(): string | undefined {
    return this.#socket?.url;
  }

  /** The number of faults that have happened, by kind. */
  get faults(): ReadonlyMap<string, number> {
    const { missed = 0, closed = 0 } = this.#socket ?? {};
    return new Map([...this.#faults, ["silent WebSocket", missed], ["closed WebSocket", closed]]);
  }

  /** With `isCalm`, it answers all calls as the chain does. */
  setCalm(isCalm: boolean) {
    this.#isCalm = isCalm;
    if (isCalm && this.#socket) this.#socket.isSilent = false;
  }

  stop() {
    this.#proxy.stop();
    this.#socket?.stop();
  }

  async #answer(request: RpcRequest): Promise<RpcResponse> {
    if (this.isDown) return { hangsUp: true };
    if (this.#isCalm) return this.#ask(request, this.#calm);
    this.calls.all++;
    if (this.#clock >= this.#phaseEndsAt) this.#startPhase();
    // The nth call of a kind fails in the same way in every run of a seed.
    const kind = kindOf(request);
    const count = this.#counts.get(kind) ?? 0;
    this.#counts.set(kind, count + 1);
    const random = this.#draw(kind, count);
    if (random.chance(this.#failingShare)) {
      this.calls.failed++;
      return this.#fail(request, random);
    }
    const answer = await this.#ask(request, this.#behaviour);
    if (!("result" in answer)) return answer;
    const answered = this.#distort(request, kind, answer.result, random);
    if (JSON.stringify(answered) !== JSON.stringify(answer.result)) this.calls.falseAnswers++;
    return { result: answered };
  }

  /** Time, in the unit of its phases. */
  get #clock(): number {
    return this.#pace.unit === "ms" ? Date.now() : this.calls.all;
  }

  async #ask(request: RpcRequest, behaviour: Behaviour): Promise<RpcResponse> {
    return (await simulateProvider(this.#target, behaviour)(request)) ?? (await askNode(this.#target, request));
  }

  #startPhase() {
    const random = this.#draw("phase", this.phases.length);
    const { name, behaviour } = drawBehaviour(random, this.#pace, this.#calm, (refusal) => this.#count(refusal));
    const length = random.integer(...this.#pace.phase);
    const [isSilent, isClosed] = [random.chance(0.3), random.chance(0.3)];
    this.#behaviour = { ...behaviour, logIndex: this.#drawLogIndex() };
    this.#phaseEndsAt = this.#clock + length;
    if (this.#socket) this.#socket.isSilent = isSilent;
    if (isClosed) this.#socket?.closeAll();
    const socket = this.#socket && { isSilent, isClosed };
    const phase = { ...this.#behaviour, dialect: name, socket, length };
    this.phases.push(`${new Date().toISOString()} ${JSON.stringify(phase)}`);
  }

  #drawLogIndex(): LogIndex | undefined {
    const random = this.#draw("log index", this.phases.length);
    if (!random.chance(LOG_INDEX_SHARE)) return undefined;
    const first = random.integer(0, HISTORY);
    const complete: [LogIndex, ...LogIndex[]] = [
      { defect: "twice" },
      { defect: "truncated", logs: random.pick(TRUNCATED_LOGS) },
    ];
    // Only the receipts, or another endpoint, have what they lack.
    const lossy: LogIndex[] = [
      { defect: "without every third log", first: 0, last: Number.MAX_SAFE_INTEGER },
      { defect: "without logs", first, last: first + random.integer(10, 100) },
      { defect: "behind", blocks: random.integer(1, HISTORY / 2) },
    ];
    return random.pick(this.#isShortRun ? complete : [...complete, ...lossy]);
  }

  #count(fault: ProviderFault | Failure | Refusal) {
    this.#faults.set(fault, (this.#faults.get(fault) ?? 0) + 1);
  }

  async #fail(request: RpcRequest, random: Random): Promise<RpcResponse> {
    const failure = random.chance(SLOW_SHARE) ? random.pick(SLOW_FAILURES) : random.pick(FAILURES);
    this.#count(failure);
    switch (failure) {
      case "HTTP 500":
        return { status: 500, body: "<html>Internal Server Error</html>" };
      case "HTTP 503":
        return { status: 503 };
      case "empty response":
        return { status: 200 };
      case "internal error":
        return { error: { code: -32603, message: "Internal error" } };
      case "cut JSON": {
        const text = JSON.stringify({ jsonrpc: "2.0", id: request.id, ...(await askNode(this.#target, request)) });
        return { status: 200, body: text.slice(0, random.integer(1, text.length - 1)) };
      }
      case "closed connection":
        await sleep(random.integer(100, 2_000));
        return { hangsUp: true };
      case "no response":
        await sleep(NEVER_MS);
        return { hangsUp: true };
      case "stalled body":
        return { stalls: true };
    }
  }

  /** Returns the true result, or a false one that stays the same for a moment. */
  #distort(request: RpcRequest, kind: string, truth: unknown, random: Random): unknown {
    const question = JSON.stringify([request.method, request.params]);
    const known = this.#falseAnswers.get(question);
    if (known && known.until > Date.now()) return known.distort(truth);

    const mayLie = kind !== "eth_getLogs" || isByAddress(request) === this.#liesByAddress;
    const distort = mayLie && random.chance(FALSE_SHARE) ? drawFalseAnswer(kind, this.#heads, random) : undefined;
    if (kind === HEAD) this.#heads = [truth, ...this.#heads].slice(0, KEPT_HEADS);
    if (!distort) return truth;
    this.#falseAnswers.set(question, { until: Date.now() + random.integer(0, LONGEST_FALSE_MS), distort });
    return distort(truth);
  }
}

/** About the number of blocks to backfill. */
const HISTORY = 1_000;
/** First block whose logs an endpoint has that lacks history. The first operations are in earlier blocks. */
const LOGS_SINCE = 500;

/** Starts an endpoint for each chain. One chain has a WebSocket, another one may have an endpoint without history. */
export const startUnreliableRpcs = (
  seed: number,
  chains: readonly LocalChain[],
  run: Pick<Options, "isShortRun">,
): Promise<UnreliableRpc[]> => {
  const random = createRandom(seed, "endpoints");
  const withSocket = random.integer(0, chains.length - 1);
  const hasRecentOnly = random.chance(0.5);
  const liesByAddress = random.chance(0.5);
  const start = (chain: LocalChain, options: Omit<Options, keyof typeof run>) =>
    UnreliableRpc.start(seed, chain, { ...options, ...run });
  const started = chains.flatMap((chain, index) => {
    const hasSocket = index === withSocket;
    // The indexer requests logs by address and in another way, or from two endpoints. It cannot notice a log that both
    // answers lack.
    if (hasSocket || !hasRecentOnly) return [start(chain, { hasSocket, liesByAddress })];
    // An operator may name the endpoint without history first.
    return [LOGS_SINCE, 0].map((logsSince) => start(chain, { logsSince, liesByAddress: false }));
  });
  return Promise.all(started);
};

/** Draws a provider, its limits and its faults. */
const drawBehaviour = (random: Random, pace: Pace, calm: Behaviour, count: (refusal: Refusal) => void) => {
  // Few providers limit the results, or the size.
  const limit = random.pick([undefined, undefined, "results", "size"] as const);
  const providers = DIALECTS.filter(([, dialect]) => !limit || dialect[limit]);
  const [name, dialect] = providers[random.integer(0, providers.length - 1)] ?? [];
  const refusal = random.pick([undefined, undefined, "rate limit", "quota"] as const);
  const refusals = { "rate limit": dialect?.rateLimits, quota: dialect?.quotas };
  const refusedShare = random.pick(pace.refusedShares);
  const isBehind = random.chance(0.3);
  // Without receipts, each block with extra bits waits for a minute.
  const bloom = !calm.lacksReceipts && random.chance(0.2) ? "extra bits" : random.pick(BLOOMS);
  const behaviour: Behaviour = {
    ...calm,
    dialect: dialect?.size ? { ...dialect, size: { ...dialect.size, bytes: MAX_BYTES } } : dialect,
    maxBlocks: random.pick(pace.maxBlocks),
    maxLogs: random.pick(MAX_LOGS),
    bloom,
    countBehind: isBehind ? () => random.integer(0, 1) : undefined,
    interrupt: () => {
      const [first, ...others] = (refusal && refusals[refusal]) ?? [];
      if (!refusal || !first || !random.chance(refusedShare)) return undefined;
      count(refusal);
      return random.pick([first, ...others]);
    },
  };
  return { name, behaviour };
};

/** The newest block with its transactions, as Ponder requests it. */
const HEAD = "newest block";

const kindOf = ({ method, params }: RpcRequest): string =>
  method === "eth_getBlockByNumber" && params[0] === "latest" && params[1] === true ? HEAD : method;

/** True for the logs of addresses, without other conditions than a range of blocks. */
const isByAddress = ({ params: [filter] }: RpcRequest): boolean =>
  typeof filter === "object" && filter !== null && "fromBlock" in filter && !("topics" in filter);

/** Draws a false answer as from several nodes behind one URL: one is behind, on a fork, or has not stored everything. */
const drawFalseAnswer = (
  kind: string,
  heads: readonly unknown[],
  random: Random,
): FalseAnswer["distort"] | undefined => {
  const [newest, ...older] = heads;
  switch (kind) {
    case HEAD: {
      const other = newest === undefined ? null : random.pick([null, newest, ...older]);
      return () => other;
    }
    case "eth_getBlockByNumber":
    case "eth_getBlockByHash":
      return () => null;
    case "eth_getLogs": {
      const share = random.pick([0, 0, random.next()]);
      return (truth) => (Array.isArray(truth) ? truth.slice(0, Math.floor(truth.length * share)) : truth);
    }
    default:
      return undefined;
  }
};
