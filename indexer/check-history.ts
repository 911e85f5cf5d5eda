import { setTimeout as sleep } from "node:timers/promises";
import type { Hex } from "viem";
import { describeError } from "../process/program.ts";
import { SettingsError } from "../process/settings.ts";
import { networks } from "../registry/networks.ts";
import type { ChainPlan, IndexPlan } from "./plan.ts";
import { Endpoint } from "./rpc/endpoint.ts";
import { findLogsRange, findMissingHistory } from "./rpc/find-missing-history.ts";
import { redactUrl } from "./rpc/redact.ts";
import { repeatRequest } from "./rpc/repeat-request.ts";
import type { IndexProgress } from "./shards/progress.ts";

/** Blocks that may not be final. They need no proof, as the transport verifies them one by one. */
const NEWEST_BLOCKS = 240;
/** The number of blocks in one request for logs if there is little to request. */
const DEFAULT_RANGE = 1_000;
const RETRY_MS = 5_000;

type Log = (message: string) => void;
type Checked = { url: string; range: number } | { url: string; missing: string } | { url: string; failure: unknown };

/**
 * Proves that the endpoints have the history that an index lacks, before they are believed. An endpoint without it is used
 * for new blocks only. Waits while no endpoint of a chain can be asked. Throws a SettingsError for chains without one.
 * @param progress what the index has already
 */
export const checkHistory = async (
  plan: IndexPlan,
  progress: readonly IndexProgress[],
  log: Log,
  signal: AbortSignal,
): Promise<IndexPlan> => {
  const problems: string[] = [];
  const chains = await Promise.all(
    plan.chains.map(async (chain) => {
      const reached = progress.find(({ chainId }) => chainId === chain.chainId)?.reached ?? 0;
      const checked = await checkChain(chain, reached, log, signal);
      if (checked.problem) problems.push(checked.problem);
      return checked.chain;
    }),
  );
  if (problems.length > 0) throw new SettingsError(problems);
  return { ...plan, chains };
};

const checkChain = async (
  chain: ChainPlan,
  reached: number,
  log: Log,
  signal: AbortSignal,
): Promise<{ chain: ChainPlan; problem?: string }> => {
  const { chainId, name, rpcUrls } = chain;
  for (;;) {
    const checked = await Promise.all(rpcUrls.map((url) => checkEndpoint(chain, reached, url)));
    signal.throwIfAborted();
    const describe = (url: string) => `PONDER_RPC_URL_${chainId} (${redactUrl(url)})`;
    const lacking = checked.flatMap((one) =>
      "missing" in one ? [`${describe(one.url)} lacks history: ${one.missing}`] : [],
    );
    const proven = checked.flatMap((one) => ("range" in one ? [one] : []));
    if (proven.length > 0) {
      for (const message of lacking) log(`${name}: ${message}. It is used for new blocks only.`);
      const recentOnlyUrls = rpcUrls.filter((url) => !proven.some((one) => one.url === url));
      const logsRange = chain.logsRange ?? Math.max(...proven.map(({ range }) => range));
      return { chain: { ...chain, recentOnlyUrls, logsRange } };
    }
    if (lacking.length === rpcUrls.length) {
      const advice = `Set an endpoint that has it, or START_BLOCK_${chainId} to index only later blocks.`;
      return { chain, problem: `${name}: ${lacking.join("; ")}. ${advice}` };
    }
    const failure = checked.find((one) => "failure" in one)?.failure;
    log(
      `${name}: no RPC endpoint can prove that it has the history; trying again in ${RETRY_MS / 1000} s: ${describeError(failure)}`,
    );
    await sleep(RETRY_MS, undefined, { signal });
  }
};

const checkEndpoint = async (chain: ChainPlan, reached: number, url: string): Promise<Checked> => {
  const { chainId, v1, v2 } = chain;
  const registries = [v1, v2].flatMap((registry) => registry ?? []);
  const endpoint = new Endpoint(chainId, url);
  try {
    const newest = await repeatRequest<Hex>(endpoint, { method: "eth_blockNumber" });
    if (newest === null) throw new Error(`${endpoint.name} does not say which block is its newest.`);
    const last = Number(newest);
    const first = Math.max(reached, Math.min(...registries.map(({ startBlock }) => startBlock)));
    const lastOld = last - NEWEST_BLOCKS;
    if (lastOld < first) return { url, range: DEFAULT_RANGE };
    const missing = await findMissingHistory(endpoint, { first, last: lastOld }, networks.get(chainId)?.migrations);
    if (missing) return { url, missing };
    const addresses = registries.map(({ address }) => address);
    return { url, range: chain.logsRange ?? (await findLogsRange(endpoint, addresses, { first, last })) };
  } catch (failure) {
    return { url, failure };
  }
};
