import { createRoute, z } from "@hono/zod-openapi";
import type { ApiApp } from "../context.ts";
import { addOperation } from "../contract/add-operation.ts";
import { defineParameters } from "../contract/define-parameters.ts";
import { BAD_MOMENT, TOO_MANY_TO_PAGES } from "../contract/responses.ts";
import type { Dependencies } from "../delegations/dependencies.ts";
import { respondJson } from "../respond.ts";
import { showNetworks } from "./show-networks.ts";

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
      }),
    ),
  })
  .openapi("Networks");

/** Adds the list of networks. It runs no query, and counts as a page. */
export const addNetworks = (app: ApiApp, { database, shards }: Pick<Dependencies, "database" | "shards">): void => {
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
      return respondJson(c, showNetworks(shards, database.isReachable), { "Cache-Control": "no-store" });
    },
  );
};
