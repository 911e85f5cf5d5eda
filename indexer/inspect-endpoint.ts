import { BaseError, type Client, custom, HttpRequestError, numberToHex, zeroAddress } from "viem";
import { getBlock } from "viem/actions";
import { describeError, rejectOnAbort } from "../process/program.ts";
import type { Deployment, Network } from "../registry/networks.ts";
import { Endpoint } from "./rpc/endpoint.ts";
import { findLogsRange, findMissingHistory } from "./rpc/find-missing-history.ts";
import type { JsonRpcRequest } from "./rpc/json-rpc.ts";
import { createReadClient } from "./rpc/read-client.ts";
import { isUnreachable, RateLimitError, WrongChainError } from "./rpc/rpc-errors.ts";
import type { ChainSettings } from "./settings.ts";
import { findStartBlock, hasStateBefore } from "./start-block.ts";

const DEADLINE_MS = 120_000;
/** Attempts to send a request that the endpoint refuses because of its rate. */
const ATTEMPTS = 4;
const RETRY_MS = 500;
const LATENCY_SAMPLES = 5;
/** Blocks to look for transactions in, and those with transactions to prove old state by. */
const STATE_BLOCKS = 20;
const STATE_PROOFS = 3;
/** The API's default of MAX_INDEX_LAG_SECONDS. */
const MAX_AGE_S = 600;
const MAX_REASON = 240;
/** A shorter part of a URL is no secret. */
const MIN_SECRET = 8;

export type Candidate = {
  chain: ChainSettings;
  url: string;
  /** False for the chain's WebSocket, which only announces blocks. */
  isRpc: boolean;
};

/** Null: not known, or of no use. */
type Findings = {
  isReachable: boolean;
  chainId: number | null;
  block: number | null;
  ageSeconds: number | null;
  hasState: boolean | null;
  hasHistory: boolean | null;
  logsRange: number | null;
  latencyMs: number | null;
};

/** The verdict in a few words, and what an operator should know about it. */
type Verdict = { verdict: string; isReady: boolean; reason?: string };

export type Inspection = Findings & Verdict;

type Subject = { endpoint: PatientEndpoint; client: Client; chain: ChainSettings; findings: Findings };

/** An endpoint that repeats requests refused because of their rate, and sends none after a deadline. */
class PatientEndpoint extends Endpoint {
  requests = 0;
  refusals = 0;
  readonly #deadline: AbortSignal;

  constructor(chainId: number, url: string, deadline: AbortSignal) {
    super(chainId, url);
    this.#deadline = deadline;
  }

  override async request(request: JsonRpcRequest): Promise<unknown> {
    for (let attempt = 1; ; attempt++) {
      this.#deadline.throwIfAborted();
      this.requests++;
      try {
        return await super.request(request);
      } catch (error) {
        if (!(error instanceof RateLimitError)) throw error;
        this.refusals++;
        if (attempt === ATTEMPTS) throw error;
      }
    }
  }
}

/** Finds out what an endpoint can do for the index of its chain. Never throws. */
export const inspectEndpoint = async (
  { chain, url, isRpc }: Candidate,
  deadlineMs = DEADLINE_MS,
): Promise<Inspection> => {
  const deadline = AbortSignal.timeout(deadlineMs);
  const endpoint = new PatientEndpoint(chain.network.chainId, url, deadline);
  const findings: Findings = {
    isReachable: false,
    chainId: null,
    block: null,
    ageSeconds: null,
    hasState: null,
    hasHistory: null,
    logsRange: null,
    latencyMs: null,
  };
  const client = createReadClient(
    custom({ request: (request: JsonRpcRequest) => endpoint.request(request) }, { retryCount: 0 }),
  );
  const subject = { endpoint, client, chain, findings };
  const inspect = isRpc ? inspectRpc : inspectWebSocket;
  const verdict = await rejectOnAbort(deadline, inspect(subject)).catch((error) => {
    const cause = error === deadline.reason ? `The check takes over ${deadlineMs / 1000} s.` : error;
    return judgeFailure(cause, findings, url);
  });
  return { ...findings, ...verdict };
};

const inspectRpc = async (subject: Subject): Promise<Verdict> => {
  const { endpoint, client, chain, findings } = subject;
  const { network } = chain;
  const last = await readHead(subject);
  const deployments = [network.v1, network.v2].flatMap((deployment) => deployment ?? []);
  const first = await findFirstBlock(client, deployments, chain.startBlock);
  findings.hasState = await hasStateSince(subject, { first, last });
  const missing = first < last ? await findMissingHistory(endpoint, { first, last }, network.migrations) : null;
  findings.hasHistory = missing === null;
  if (missing) {
    const advice = `Blocks from ${first} are needed, or a later START_BLOCK_${network.chainId}.`;
    return { verdict: "new blocks only", isReady: false, reason: `${missing}. ${advice}` };
  }
  const addresses = deployments.map(({ address }) => address);
  findings.logsRange = await findLogsRange(endpoint, addresses, { first, last });
  return judgeFindings(subject, network, first);
};

const judgeFindings = ({ endpoint, findings }: Subject, network: Network, first: number): Verdict => {
  const { hasState, ageSeconds } = findings;
  if (network.v1 && !hasState) {
    const reason = `v1 history cannot be indexed: it does not have the state of block ${first}. Use an archive node.`;
    return { verdict: "no archive state", isReady: false, reason };
  }
  if (!network.quiet && ageSeconds !== null && ageSeconds > MAX_AGE_S) {
    const reason = `its newest block is over ${MAX_AGE_S} s old: the node is behind, or the network makes no blocks.`;
    return { verdict: "behind", isReady: false, reason };
  }
  if (endpoint.refusals === 0) return { verdict: "ready", isReady: true };
  const reason = `it refused ${endpoint.refusals} of ${endpoint.requests} requests because of their rate. History takes longer.`;
  return { verdict: "ready, limited", isReady: true, reason };
};

/** A WebSocket announces blocks, and is asked for nothing else. */
const inspectWebSocket = async (subject: Subject): Promise<Verdict> => {
  await readHead(subject);
  await subject.endpoint.request({ method: "eth_subscribe", params: ["newHeads"] });
  return { verdict: "ready", isReady: true };
};

/** @returns the newest block */
const readHead = async ({ endpoint, client, findings }: Subject): Promise<number> => {
  findings.chainId = Number(await endpoint.request({ method: "eth_chainId" }));
  findings.isReachable = true;
  const { number, timestamp } = await getBlock(client);
  findings.block = Number(number);
  findings.ageSeconds = Math.max(0, Math.round(Date.now() / 1000 - Number(timestamp)));

  const latencies: number[] = [];
  for (let sample = 0; sample < LATENCY_SAMPLES; sample++) {
    const startedAt = performance.now();
    await endpoint.request({ method: "eth_blockNumber" });
    latencies.push(performance.now() - startedAt);
  }
  findings.latencyMs = latencies.sort((a, b) => a - b)[Math.floor(LATENCY_SAMPLES / 2)] ?? null;
  return findings.block;
};

/** Finds the first block to index. It can be earlier than the indexer's own, which also searches with old state. */
const findFirstBlock = async (
  client: Client,
  deployments: readonly Deployment[],
  setting: number | null,
): Promise<number> => {
  const starts = await Promise.all(
    deployments.map((deployment) => findStartBlock([client], { ...deployment, deployedBefore: null }, setting)),
  );
  return Math.min(...starts.map(({ block }) => block));
};

/**
 * Returns true if an endpoint has the state of old blocks. An answer alone is no proof: some nodes answer for missing
 * state as for empty accounts, or with the newest state.
 */
const hasStateSince = async (
  { endpoint, client }: Subject,
  { first, last }: { first: number; last: number },
): Promise<boolean> => {
  // Every node has the state of the genesis block.
  const start = Math.min(Math.max(1, first), last);
  try {
    await endpoint.request({ method: "eth_getBalance", params: [zeroAddress, numberToHex(start)] });
    let proofs = 0;
    for (let number = start + 1; number <= Math.min(last, start + STATE_BLOCKS) && proofs < STATE_PROOFS; number++) {
      const block = await endpoint.request({ method: "eth_getBlockByNumber", params: [numberToHex(number), false] });
      if (!(block as { transactions: unknown[] } | null)?.transactions.length) continue;
      if (await hasStateBefore({ client, retryMs: RETRY_MS }, BigInt(number))) return true;
      proofs++;
    }
    return proofs === 0;
  } catch (error) {
    if (isRefusal(error)) return false;
    throw error;
  }
};

/** Some providers refuse old state with an HTTP status. */
const isRefusal = (error: unknown): boolean =>
  error instanceof HttpRequestError ? (error.status ?? 500) < 500 : !isUnreachable(error);

const judgeFailure = (error: unknown, findings: Findings, url: string): Verdict => {
  const reason = describeFailure(error, url);
  if (error instanceof WrongChainError) {
    findings.isReachable = true;
    findings.chainId = error.actual;
    const verdict = `wrong chain ${error.actual}`;
    return { verdict, isReady: false, reason: "The indexer does not start with it." };
  }
  if (error instanceof RateLimitError) {
    findings.isReachable = true;
    return { verdict: "limits requests", isReady: false, reason };
  }
  return { verdict: findings.isReachable ? "fails" : "does not answer", isReady: false, reason };
};

/** Describes an error in one line, without the secrets of a URL: providers may repeat a key in their answers. */
const describeFailure = (error: unknown, url: string): string => {
  const { username, password, pathname, searchParams } = new URL(url);
  const secrets = [username, password, ...pathname.split("/"), ...searchParams.values()];
  const text = error instanceof BaseError ? describeRpcError(error) : describeError(error);
  return secrets
    .filter((secret) => secret.length >= MIN_SECRET)
    .reduce((message, secret) => message.replaceAll(secret, "…"), text)
    .replaceAll(/\s+/g, " ")
    .trim()
    .slice(0, MAX_REASON);
};

/** viem says "fetch failed" for every network error. Its cause says which. */
const describeRpcError = (error: BaseError): string => {
  const root: unknown = error.walk((cause) => cause instanceof Error && !cause.cause);
  const parts = [error.shortMessage, error.details, root instanceof BaseError ? "" : describeError(root)];
  return [...new Set(parts)].filter(Boolean).join(" ");
};
