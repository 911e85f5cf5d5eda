import { createClient } from "viem";
import type { Deployment, RegistryVersion } from "../registry/networks.ts";
import { createChainTransport, fetchChainId, redactUrl } from "./chain-transport.ts";
import type { IndexerDatabase } from "./database.ts";
import type { ChainPlan, IndexPlan, RegistryPlan } from "./plan.ts";
import { type ChainSettings, type IndexerSettings, SettingsError } from "./settings.ts";
import { findStartBlock } from "./start-block.ts";

type Log = (message: string) => void;

const RETRY_MS = 5_000;

/**
 * Asks every endpoint which chain it is on. An endpoint on another chain is a wrong setting; one
 * that does not answer is not: another one of its chain may do, and until one does, we wait.
 */
export const checkEndpoints = async (chains: readonly ChainSettings[], log: Log, signal: AbortSignal) => {
  const problems: string[] = [];
  await Promise.all(
    chains.map(async (chain) => {
      const found = await checkChain(chain, log, signal);
      problems.push(...found);
    }),
  );
  if (problems.length > 0) throw new SettingsError(problems);
};

const checkChain = async ({ network, rpcUrls, wsUrl }: ChainSettings, log: Log, signal: AbortSignal) => {
  const { chainId, name } = network;

  const check = async (url: string, variable: string) => {
    const endpoint = `${variable}${chainId} (${redactUrl(url)})`;
    try {
      const actual = await fetchChainId(url);
      return actual === chainId
        ? { answers: true }
        : { answers: true, problem: `${endpoint} is on chain ${actual}, not on chain ${chainId}.` };
    } catch (error) {
      const { message } = error as Error;
      log(`${name}: ${endpoint} does not answer: ${message.split("\n")[0]}`);
      return { answers: false };
    }
  };

  for (;;) {
    const rpcs = await Promise.all(rpcUrls.map((url) => check(url, "PONDER_RPC_URL_")));
    const heads = wsUrl ? [await check(wsUrl, "PONDER_WS_URL_")] : [];
    const problems = [...rpcs, ...heads].flatMap(({ problem }) => problem ?? []);
    if (problems.length > 0 || signal.aborted || rpcs.some(({ answers }) => answers)) return problems;
    log(`${name}: no RPC endpoint answers; trying again in ${RETRY_MS / 1000} s.`);
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
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
  const isOpen = setting === null && deployment.startBlock === null && deployment.startBlockFloor === null;
  if (isOpen) {
    const recalled = await database.recallStartBlock(chainId, version, address);
    if (recalled !== null) return { address, startBlock: recalled };
    log(`${name}: looking for the block where registry ${version} was deployed…`);
  }

  const client = createClient({ transport: createChainTransport(chainId, rpcUrls) });
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
