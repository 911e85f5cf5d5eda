import { createConfig } from "ponder";
import { plan, transports } from "./indexer/current-plan.ts";
import { registryV1Abi, registryV2Abi } from "./registry/abi.ts";

const chains = Object.fromEntries(
  plan.chains.map((chain) => [
    chain.name,
    {
      id: chain.chainId,
      rpc: transports.get(chain.chainId),
      ...(chain.wsUrl && { ws: chain.wsUrl }),
      pollingInterval: plan.pollingIntervalMs,
    },
  ]),
);

const deployments = (version: "v1" | "v2") =>
  Object.fromEntries(plan.chains.flatMap((chain) => (chain[version] ? [[chain.name, chain[version]]] : [])));

export default createConfig({
  // Each chain in its own order: a slow chain does not hold back the others.
  ordering: "multichain",
  database: {
    kind: "postgres",
    connectionString: process.env.DATABASE_URL,
    poolConfig: { max: 14 },
  },
  chains,
  contracts: {
    RegistryV1: { abi: registryV1Abi, chain: deployments("v1") },
    RegistryV2: { abi: registryV2Abi, chain: deployments("v2") },
  },
  blocks: {
    // "latest": the backfill has no use for a row per block, and until it is done nothing is served.
    NewestBlock: {
      startBlock: "latest",
      interval: 1,
      chain: Object.fromEntries(plan.chains.map((chain) => [chain.name, {}])),
    },
  },
});
