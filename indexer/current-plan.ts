import type { Client } from "viem";
import { type IndexPlan, PLAN_VARIABLE } from "./plan.ts";
import { ChainRpc } from "./rpc/chain-rpc.ts";
import { createReadClient } from "./rpc/read-client.ts";

// The plan and the clients of the Ponder process, for ponder.config.ts and the handlers.

const readPlan = (): IndexPlan => {
  const plan = process.env[PLAN_VARIABLE];
  if (!plan) {
    throw new Error(`${PLAN_VARIABLE} is not set: start the indexer with "npm run indexer".`);
  }
  return JSON.parse(plan);
};

export const plan = readPlan();

const rpcs = new Map(
  plan.chains.map(({ rpcUrls, v1, v2, ...options }) => {
    const registries = [v1, v2].flatMap((registry) => registry?.address ?? []);
    return [options.chainId, new ChainRpc({ ...options, urls: rpcUrls, registries })];
  }),
);

/** Returns a chain's RPC, which Ponder and the handlers share, with the state of each endpoint. */
export const getChainRpc = (chainId: number): ChainRpc => {
  const rpc = rpcs.get(chainId);
  if (!rpc) throw new Error(`Chain ${chainId} is not part of this index.`);
  return rpc;
};

const clients = new Map([...rpcs].map(([chainId, { transport }]) => [chainId, createReadClient(transport)]));

/** Returns a client that reads a chain directly. Ponder's own client caches by block number, which a reorg makes stale. */
export const getChainClient = (chainId: number): Client => {
  const client = clients.get(chainId);
  if (!client) throw new Error(`Chain ${chainId} is not part of this index.`);
  return client;
};
