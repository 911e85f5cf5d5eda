import { type Client, createClient } from "viem";
import { createChainTransport } from "./chain-transport.ts";
import { type IndexPlan, PLAN_VARIABLE } from "./plan.ts";

// What ponder.config.ts and the indexing functions know, inside the Ponder process.

const readPlan = (): IndexPlan => {
  const plan = process.env[PLAN_VARIABLE];
  if (!plan) {
    throw new Error(`${PLAN_VARIABLE} is not set: start the indexer with "npm run indexer".`);
  }
  return JSON.parse(plan);
};

export const plan = readPlan();

/** Shared by Ponder and the handlers: what one learns of an endpoint, the other need not. */
export const transports = new Map(
  plan.chains.map(({ chainId, rpcUrls, v1, v2 }) => {
    const registries = [v1, v2].flatMap((registry) => registry?.address ?? []);
    return [chainId, createChainTransport(chainId, rpcUrls, registries)];
  }),
);

const clients = new Map([...transports].map(([chainId, transport]) => [chainId, createClient({ transport })]));

/** A client that reads a chain directly. Ponder's own caches by block number, which a reorg can make stale. */
export const chainClient = (chainId: number): Client => {
  const client = clients.get(chainId);
  if (!client) throw new Error(`Chain ${chainId} is not part of this index.`);
  return client;
};
