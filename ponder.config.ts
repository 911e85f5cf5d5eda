import { createConfig } from "ponder";
import { getChainRpc, plan } from "./indexer/current-plan.ts";
import { registryV1Abi, registryV2Abi } from "./registry/abi.ts";

const DEFAULT_LOGS_RANGE = 10_000;
/** Ponder sends at least 3 requests a second, polls among them, however often it was limited. */
const WS_POLLING_INTERVAL_MS = 500;

const chains = Object.fromEntries(
  plan.chains.map((chain) => [
    chain.name,
    {
      id: chain.chainId,
      rpc: getChainRpc(chain.chainId).transport,
      // With a WebSocket most polls are answered from memory.
      pollingInterval: chain.wsUrl ? Math.min(plan.pollingIntervalMs, WS_POLLING_INTERVAL_MS) : plan.pollingIntervalMs,
      ethGetLogsBlockRange: chain.logsRange ?? DEFAULT_LOGS_RANGE,
    },
  ]),
);

const listDeployments = (version: "v1" | "v2") =>
  Object.fromEntries(plan.chains.flatMap((chain) => (chain[version] ? [[chain.name, chain[version]]] : [])));

export default createConfig({
  // Orders events per chain: a slow chain does not delay the others.
  ordering: "multichain",
  database: {
    kind: "postgres",
    connectionString: process.env.DATABASE_URL,
    poolConfig: { max: 14 },
  },
  chains,
  contracts: {
    RegistryV1: { abi: registryV1Abi, chain: listDeployments("v1") },
    RegistryV2: { abi: registryV2Abi, chain: listDeployments("v2") },
  },
  blocks: {
    // "latest": the backfill needs no row per block, because nothing is served until it is complete.
    NewestBlock: {
      startBlock: "latest",
      interval: 1,
      chain: Object.fromEntries(plan.chains.map((chain) => [chain.name, {}])),
    },
  },
});
