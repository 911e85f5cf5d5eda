import { setTimeout as sleep } from "node:timers/promises";
import { BaseError } from "viem";
import type { Deployment, RegistryVersion } from "../registry/networks.ts";
import { describeError } from "../stack/program.ts";
import { SettingsError } from "../stack/settings.ts";
import { createChainClient, fetchChainId, redactUrl } from "./chain-transport.ts";
import type { IndexerDatabase } from "./database.ts";
import type { ChainPlan, IndexPlan, RegistryPlan } from "./plan.ts";
import type { ChainSettings, IndexerSettings } from "./settings.ts";
import { findStartBlock } from "./start-block.ts";

type Log = (message: string) => void;

const RETRY_MS = 5_000;

/**
 * Asks every endpoint which chain it is on. An endpoint on another chain is a wrong setting; one
 * that does not answer is not: another one of its chain may do, and until one does, we wait.
 */
export const checkEndpoints = async (chains: readonly ChainSettings[], log: Log, signal: AbortSignal) => {
  let waiting = chains;
  while (waiting.length > 0 && !signal.aborted) {
    const checked = await Promise.all(waiting.map((chain) => checkChain(chain, log)));
    const problems = checked.flatMap(({ problems }) => problems);
    if (problems.length > 0) throw new SettingsError(problems);

    waiting = checked.filter(({ isUp }) => !isUp).map(({ chain }) => chain);
    if (waiting.length > 0) {
      const names = waiting.map(({ network }) => network.name).join(", ");
      const settings = waiting.map(({ network }) => `PONDER_RPC_URL_${network.chainId}`).join(", ");
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

  const check = async (url: string, variable: string): Promise<boolean> => {
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
    Promise.all(chain.rpcUrls.map((url) => check(url, "PONDER_RPC_URL_"))),
    chain.wsUrl && check(chain.wsUrl, "PONDER_WS_URL_"),
  ]);
  return { chain, problems, isUp: answers.some((hasAnswered) => hasAnswered) };
};

/** Settles all that has to be known before indexing: chains, addresses, start blocks. */
export const preparePlan = async (
  settings: IndexerSettings,
  database: IndexerDatabase,
  log: Log,
): Promise<IndexPlan> => {
  const chains: ChainPlan[] = [];
  for (const chain of settings.chains) {
    const { network, rpcUrls, wsUrl } = chain;
    chains.push({
      chainId: network.chainId,
      name: network.name,
      rpcUrls,
      wsUrl,
      v1: network.v1 && (await planRegistry(chain, "v1", network.v1, database, log)),
      v2: network.v2 && (await planRegistry(chain, "v2", network.v2, database, log)),
    });
  }
  return { chains, pollingIntervalMs: settings.pollingIntervalMs };
};

const planRegistry = async (
  { network, rpcUrls, startBlock: setting }: ChainSettings,
  version: RegistryVersion,
  deployment: Deployment,
  database: IndexerDatabase,
  log: Log,
): Promise<RegistryPlan> => {
  const { chainId, name } = network;
  const { address } = deployment;
  if (setting !== null && deployment.startBlock !== null && setting > deployment.startBlock) {
    log(
      `${name}: START_BLOCK_${chainId} is later than block ${deployment.startBlock}, where registry ${version} was deployed: what was delegated before is not known.`,
    );
  }
  const isOpen = setting === null && deployment.startBlock === null && deployment.startBlockFloor === null;
  if (isOpen) {
    const recalled = await database.recallStartBlock(chainId, version, address);
    if (recalled !== null) return { address, startBlock: recalled };
    log(`${name}: looking for the block where registry ${version} was deployed…`);
  }

  const client = createChainClient(chainId, rpcUrls);
  const start = await findStartBlock(client, deployment, setting);
  const registry = { address, startBlock: start.block };
  if (isOpen) {
    log(
      start.source === "genesis"
        ? `${name}: registry ${version} is indexed from block 0: ${start.reason}. START_BLOCK_${chainId} sets another block.`
        : `${name}: registry ${version} was deployed in block ${start.block}.`,
    );
    await database.rememberStartBlock(chainId, version, registry);
  }
  return registry;
};
