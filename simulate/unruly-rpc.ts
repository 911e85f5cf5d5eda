import { setTimeout as sleep } from "node:timers/promises";
import type { LocalChain } from "../sandbox/chain.ts";
import type { Random } from "../test/support/random.ts";
import { askNode, launchRpcProxy, type RpcRequest, type RpcResponse } from "../test/support/rpc-relay.ts";
import { drawFor } from "./draw.ts";

/** How many of its calls fail: drawn once for each chain. */
const FAILING = [0.02, 0.03, 0.04, 0.05] as const;
const LYING = 0.03;
const LONGEST_LIE_MS = 1_500;
/** Longer than the indexer waits for an answer. */
const NEVER_MS = 11_000;
const KEPT_HEADS = 12;

type Lie = { until: number; tell: (truth: unknown) => unknown };

/** The node of a chain as it is reached over the network: some calls fail, and some of its answers are not true. */
export class UnrulyRpc {
  readonly url: string;
  readonly stop: () => void;
  readonly #target: string;
  readonly #draw: (use: string, count: number) => Random;
  readonly #failing: number;
  readonly #counts = new Map<string, number>();
  /** What is being said that is not true, by the question. */
  readonly #lies = new Map<string, Lie>();
  /** The newest blocks that it has told, also those that the chain has replaced since. */
  #heads: unknown[] = [];
  /** While it is, it only passes on. */
  isCalm = true;
  readonly calls = { all: 0, failed: 0, lies: 0 };

  private constructor(seed: number, local: LocalChain, { url, stop }: { url: string; stop: () => void }) {
    [this.url, this.stop, this.#target] = [url, stop, local.url];
    this.#draw = (use, count) => drawFor(seed, "rpc", local.chainId, use, count);
    this.#failing = this.#draw("failing", 0).pick(FAILING);
  }

  static async start(seed: number, local: LocalChain): Promise<UnrulyRpc> {
    const proxy = await launchRpcProxy(local.url);
    const rpc = new UnrulyRpc(seed, local, proxy);
    proxy.intercept = (request) => rpc.#answer(request);
    return rpc;
  }

  async #answer(request: RpcRequest): Promise<RpcResponse> {
    if (this.isCalm) return askNode(this.#target, request);
    this.calls.all++;
    // The same call of a kind, counted from the start, fails in the same way in every run of a seed.
    const kind = kindOf(request);
    const count = this.#counts.get(kind) ?? 0;
    this.#counts.set(kind, count + 1);
    const random = this.#draw(kind, count);
    if (random.chance(this.#failing)) {
      this.calls.failed++;
      return this.#fail(request, random);
    }
    const answer = await askNode(this.#target, request);
    if (!("result" in answer)) return answer;
    const told = this.#tell(request, kind, answer.result, random);
    if (JSON.stringify(told) !== JSON.stringify(answer.result)) this.calls.lies++;
    return { result: told };
  }

  async #fail(request: RpcRequest, random: Random): Promise<RpcResponse> {
    const failures: [() => Promise<RpcResponse> | RpcResponse, ...(() => Promise<RpcResponse> | RpcResponse)[]] = [
      () => ({ status: 429 }),
      () => ({ status: 500, body: "<html>Internal Server Error</html>" }),
      () => ({ status: 503 }),
      () => ({ status: 200 }),
      () => ({ error: { code: -32603, message: "Internal error" } }),
      () => ({ error: { code: -32005, message: "Too many requests" } }),
      async () => {
        const text = JSON.stringify({ jsonrpc: "2.0", id: request.id, ...(await askNode(this.#target, request)) });
        return { status: 200, body: text.slice(0, random.integer(1, text.length - 1)) };
      },
      async () => {
        await sleep(random.chance(0.1) ? NEVER_MS : random.integer(100, 2_000));
        return { hangsUp: true };
      },
    ];
    return random.pick(failures)();
  }

  /** The truth, or what is said in its place: for a moment, to whoever asks the same. */
  #tell(request: RpcRequest, kind: string, truth: unknown, random: Random): unknown {
    const question = JSON.stringify([request.method, request.params]);
    const known = this.#lies.get(question);
    if (known && known.until > Date.now()) return known.tell(truth);

    const tell = random.chance(LYING) ? lieAbout(kind, this.#heads, random) : undefined;
    if (kind === HEAD) this.#heads = [truth, ...this.#heads].slice(0, KEPT_HEADS);
    if (!tell) return truth;
    this.#lies.set(question, { until: Date.now() + random.integer(0, LONGEST_LIE_MS), tell });
    return tell(truth);
  }
}

/** With its transactions, as Ponder asks for it. */
const HEAD = "newest block";

const kindOf = ({ method, params }: RpcRequest): string =>
  method === "eth_getBlockByNumber" && params[0] === "latest" && params[1] === true ? HEAD : method;

/** A lie of the kind that nodes behind one address tell: one of them is behind, on a fork, or has not stored all yet. */
const lieAbout = (kind: string, heads: readonly unknown[], random: Random): Lie["tell"] | undefined => {
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
