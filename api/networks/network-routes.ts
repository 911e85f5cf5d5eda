import { createRoute, z } from "@hono/zod-openapi";
import { blockExplorers } from "../../registry/block-explorers.ts";
import { networks } from "../../registry/networks.ts";
import type { ApiApp } from "../context.ts";
import { addOperation } from "../contract/add-operation.ts";
import { defineParameters } from "../contract/define-parameters.ts";
import { BAD_MOMENT, TOO_MANY_TO_PAGES } from "../contract/responses.ts";
import type { Dependencies } from "../delegations/dependencies.ts";
import type { Proofs } from "../proofs/proofs.ts";
import { respondJson } from "../respond.ts";
import { type ChainState, newestKnownBlock, type Shards } from "../shards/shards.ts";
import { showVerification, VerificationSchema } from "../shards/show-verification.ts";

const address = z.string().nullable().openapi({ description: "null if the network lacks it." });
const block = z.object({ number: z.int(), timestamp: z.int() }).nullable();

const NetworksSchema = z
  .object({
    maxLagSeconds: z.int().openapi({ description: "Without an answer, if the newest indexed block is older." }),
    networks: z.array(
      z.object({
        chainId: z.int(),
        name: z.string(),
        testnet: z.boolean(),
        status: z.enum(["active", "winding-down", "shut-down", "unknown"]),
        blockExplorer: z.string().nullable().openapi({ description: "The address of a block explorer." }),
        registries: z.object({ v1: address, v2: address }),
        state: z.enum(["fresh", "behind", "indexing", "not-indexed", "unreachable"]).openapi({
          description: "`fresh` networks are answered for. `unreachable`: the database is out of reach.",
        }),
        reason: z.string().nullable().openapi({ description: "Why the network is not answered for." }),
        indexedBlock: block.openapi({ description: "The newest block that answers include." }),
        newestBlock: block.openapi({ description: "The newest block of the network, as the indexer last saw it." }),
        progress: z
          .object({
            startBlock: z.int(),
            reachedBlock: z.int(),
            newestBlock: z.int(),
            share: z.number().openapi({ description: "The share of blocks, from 0 to 1." }),
          })
          .nullable()
          .openapi({ description: "While the network is being indexed." }),
        verification: VerificationSchema,
        proofs: z.object({ available: z.boolean(), reason: z.string().nullable() }).openapi({
          description: "If checks can have proofs, and why not.",
        }),
      }),
    ),
  })
  .openapi("Networks");

type Networks = z.infer<typeof NetworksSchema>;
type NetworkState = Pick<
  Networks["networks"][number],
  "state" | "reason" | "indexedBlock" | "newestBlock" | "progress" | "verification"
>;

/** Adds the list of networks. It runs no query, and counts as a page. */
export const addNetworks = (
  app: ApiApp,
  { database, shards, proofs }: Pick<Dependencies, "database" | "shards" | "proofs">,
): void => {
  const parameters = defineParameters({ query: {} });
  addOperation(
    app,
    createRoute({
      method: "get",
      path: "/networks",
      operationId: "networks",
      tags: ["wallets"],
      summary: "All networks with a registry",
      description: "Every network with a registry, mainnets first, and if it is indexed here.",
      responses: {
        200: { description: "The networks.", content: { "application/json": { schema: NetworksSchema } } },
        ...BAD_MOMENT,
        ...TOO_MANY_TO_PAGES,
      },
    }),
    (c) => {
      parameters.read(c);
      return respondJson(c, showNetworks(shards, proofs, database.isReachable), { "Cache-Control": "no-store" });
    },
  );
};

/** Shows every network with a registry, mainnets first, and the state of its index. */
const showNetworks = (shards: Shards, proofs: Proofs, isReachable: boolean): Networks => {
  const states = new Map(shards.chainStates().map((state) => [state.chainId, state]));
  const all = [...networks.values()].toSorted((a, b) => Number(a.testnet) - Number(b.testnet));
  return {
    maxLagSeconds: shards.maxLagSeconds,
    networks: all.map((network) => ({
      chainId: network.chainId,
      name: network.name,
      testnet: network.testnet,
      status: network.status,
      blockExplorer: blockExplorers.get(network.chainId) ?? null,
      registries: { v1: network.v1?.address ?? null, v2: network.v2?.address ?? null },
      ...showState(states.get(network.chainId), states.size > 0, isReachable),
      proofs: showProofs(proofs.findObstacle(network.chainId)),
    })),
  };
};

const showProofs = (reason: string | null) => ({ available: reason === null, reason });

const OUT_OF_REACH = "The database is out of reach.";

const showState = (state: ChainState | undefined, hasChains: boolean, isReachable: boolean): NetworkState => {
  if (!state) {
    const unknown = { indexedBlock: null, newestBlock: null, progress: null, verification: null };
    // The chains of a database that was never reached are unknown.
    if (!hasChains && !isReachable) return { state: "unreachable", reason: OUT_OF_REACH, ...unknown };
    return { state: "not-indexed", reason: null, ...unknown };
  }
  const { freshness, notReadyReason } = state;
  const newest = newestKnownBlock(state);
  return {
    state: !isReachable ? "unreachable" : notReadyReason === null ? "fresh" : freshness ? "behind" : "indexing",
    reason: isReachable ? notReadyReason : OUT_OF_REACH,
    indexedBlock: freshness && {
      number: Number(freshness.indexedBlock),
      timestamp: Number(freshness.indexedBlockTimestamp),
    },
    newestBlock: {
      number: newest,
      timestamp: Math.max(state.newestBlockTimestamp, Number(freshness?.indexedBlockTimestamp ?? 0)),
    },
    progress: freshness ? null : showProgress(state, newest),
    verification: showVerification(state.verification),
  };
};

/** Shows the progress of an index, in blocks. */
const showProgress = ({ startBlock, reachedBlock }: ChainState, newest: number) => {
  const start = Math.min(startBlock, newest);
  const reached = Math.min(Math.max(reachedBlock, start), newest);
  return {
    startBlock: start,
    reachedBlock: reached,
    newestBlock: newest,
    share: newest > start ? (reached - start) / (newest - start) : 0,
  };
};
