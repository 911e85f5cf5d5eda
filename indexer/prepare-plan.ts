import { setTimeout as sleep } from "node:timers/promises";
import { BaseError } from "viem";
import { describeError } from "../process/program.ts";
import { SettingsError } from "../process/settings.ts";
import type { Deployment, RegistryVersion } from "../registry/networks.ts";
import type { ChainPlan, IndexPlan, RegistryPlan } from "./plan.ts";
import { createChainClient } from "./rpc/chain-rpc.ts";
import { fetchChainId } from "./rpc/endpoint.ts";
import { redactUrl } from "./rpc/redact.ts";
import type { ChainSettings, IndexerSettings } from "./settings.ts";
import type { IndexerDatabase } from "./shards/index-database.ts";
import { findStartBlock } from "./start-block.ts";

type Log = (message: string) => void;

const RETRY_MS = 5_000;

/**
 * Checks the chain id of every endpoint. An endpoint on another chain is a wrong setting. An endpoint that does not answer
 * is not: this waits until one endpoint of each chain answers.
 */
export const checkEndpoints = async (chains: readonly ChainSettings[], log: Log, signal: AbortSignal) => {
  let unreachable = chains;
  while (unreachable.length > 0 && !signal.aborted) {
    const checked = await Promise.all(unreachable.map((chain) => checkChain(chain, log)));
    const problems = checked.flatMap(({ problems }) => problems);
    if (problems.length > 0) throw new SettingsError(problems);

    unreachable = checked.filter(({ isReachable }) => !isReachable).map(({ chain }) => chain);
    if (unreachable.length > 0) {
      const names = unreachable.map(({ network }) => network.name).join(", ");
      const settings = unreachable.map(({ network }) => `PONDER_RPC_URL_${network.chainId}`).join(", ");
      log(
        `${names}: no RPC endpoint answers; trying again in ${RETRY_MS / 1000} s. If none is starting, set ${settings}.`,
      );
      await sleep(RETRY_MS, undefined, { signal }).catch(() => {});
    }
  }
};

const checkChain = async (chain: ChainSettings, log: Log) => {
  const { chainId, name } = chain.network;
  const problems: string[] = [];

  const checkUrl = async (url: string, variable: string): Promise<boolean> => {
    const endpoint = `${variable}${chainId} (${redactUrl(url)})`;
    try {
      const actual = await fetchChainId(url);
      if (actual !== chainId) problems.push(`${endpoint} is on chain ${actual}, not on chain ${chainId}.`);
      return true;
    } catch (error) {
      const reason = error instanceof BaseError ? `${error.shortMessage} ${error.details ?? ""}` : describeError(error);
      log(`${name}: ${endpoint} does not answer: ${reason}`);
      return false;
    }
  };

  const [answers] = await Promise.all([
    Promise.all(chain.rpcUrls.map((url) => checkUrl(url, "PONDER_RPC_URL_"))),
    chain.wsUrl && checkUrl(chain.wsUrl, "PONDER_WS_URL_"),
  ]);
  return { chain, problems, isReachable: answers.includes(true) };
};

/** Determines the chains, addresses and start blocks to index. */
export const preparePlan = async (
  settings: IndexerSettings,
  database: IndexerDatabase,
  log: Log,
): Promise<IndexPlan> => {
  // Side by side: some of them search for the start blocks, one request after another.
  const chains = settings.chains.map(async (chain): Promise<ChainPlan> => {
    const { network, rpcUrls, wsUrl, logsRange } = chain;
    const plan = (version: RegistryVersion) => {
      const deployment = network[version];
      return deployment && planRegistry(chain, { version, deployment }, database, log);
    };
    const [v1, v2] = await Promise.all([plan("v1"), plan("v2")]);
    const { chainId, name } = network;
    return { chainId, name, rpcUrls, wsUrl, ...(logsRange !== null && { logsRange }), v1, v2 };
  });
  return { chains: await Promise.all(chains), pollingIntervalMs: settings.pollingIntervalMs };
};

const EARLY_START = {
  time: "the last one before its deployment by time",
  floor: "which is known to be no later than its deployment",
  genesis: "the first one of the chain",
};

const planRegistry = async (
  { network, rpcUrls, startBlock: setting }: ChainSettings,
  { version, deployment }: { version: RegistryVersion; deployment: Deployment },
  database: IndexerDatabase,
  log: Log,
): Promise<RegistryPlan> => {
  const { chainId, name } = network;
  const { address } = deployment;
  if (setting !== null && deployment.startBlock !== null && setting > deployment.startBlock) {
    log(
      `${name}: START_BLOCK_${chainId} is later than block ${deployment.startBlock}, where registry ${version} was deployed: earlier delegations are not indexed.`,
    );
  }
  const isUnknown = setting === null && deployment.startBlock === null;
  if (isUnknown) {
    const saved = await database.readStartBlock(chainId, version, address);
    if (saved !== null) return { address, startBlock: saved };
    log(`${name}: searching for the block where registry ${version} was deployed…`);
  }

  const clients = rpcUrls.map((url) => createChainClient(chainId, [url]));
  const start = await findStartBlock(clients, deployment, setting).catch((error) => {
    throw new Error(
      `${name}: the search for the block where registry ${version} was deployed failed. Start again when an RPC endpoint answers, or set START_BLOCK_${chainId}.`,
      { cause: error },
    );
  });
  const registry = { address, startBlock: start.block };
  if (isUnknown) {
    log(
      "reason" in start
        ? `${name}: registry ${version} is indexed from block ${start.block}, ${EARLY_START[start.source]}: ${start.reason}. To start later, set START_BLOCK_${chainId}.`
        : `${name}: registry ${version} was deployed in block ${start.block}.`,
    );
    if (start.block > 0 && (start.source === "discovered" || start.source === "time")) {
      await database.saveStartBlock(chainId, version, registry);
    }
  }
  return registry;
};
