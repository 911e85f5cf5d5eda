import { createRoute, z } from "@hono/zod-openapi";
import { networkName } from "../../registry/networks.ts";
import type { ApiApp } from "../context.ts";
import { notIndexed, Problem } from "../problem.ts";
import { respondJson } from "../respond.ts";
import { lagSeconds, newestBlockOf, type Shards } from "../shards.ts";
import type { StateDigests } from "../state-digests.ts";
import { addOperation } from "./add-operation.ts";

const digest = z.string().nullable().openapi({ description: "null where the chain does not have this registry." });

const DigestSchema = z
  .object({
    block: z.int().openapi({ description: "The block they are of: final, and a multiple of 1,000." }),
    v1: digest,
    v2: digest,
  })
  .nullable()
  .openapi({
    description:
      "A hash over all active delegations of each registry, the same wherever the index is the same. Worked out in the background: null until it is.",
  });

const ChainSchema = z
  .object({
    chainId: z.int(),
    name: z.string(),
    shard: z.string().openapi({ description: "The schema that answers for it." }),
    ready: z.boolean(),
    reason: z.string().nullable().openapi({ description: "Why it is not answered for; null where it is." }),
    indexedBlock: z.int().nullable().openapi({ description: "The newest block that answers include." }),
    indexedBlockTimestamp: z.int().nullable(),
    finalizedBlock: z.int().nullable().openapi({ description: "The newest indexed block that is taken for final." }),
    reachedBlock: z.int().openapi({ description: "How far the index has come; behind the chain while it catches up." }),
    newestBlock: z.int().openapi({ description: "The chain's own newest block, as the indexer last saw it." }),
    newestBlockTimestamp: z.int(),
    lagSeconds: z.int().nullable().openapi({ description: "How old the newest indexed block is." }),
    stateDigest: DigestSchema,
  })
  .openapi("ChainStatus");

const StatusSchema = z
  .object({
    version: z.string(),
    commit: z.string().nullable().openapi({ description: "What the image was built from; null outside of one." }),
    builtAt: z.string().nullable().openapi({ description: "When the image was built." }),
    startedAt: z.iso.datetime(),
    database: z.enum(["reachable", "out of reach"]),
    missingShards: z.array(z.string()).openapi({ description: "Shards that have not said what they index." }),
    chains: z.array(ChainSchema),
  })
  .openapi("Status");

type Status = z.infer<typeof StatusSchema>;

/** What is running, and since when. */
export type Build = Pick<Status, "version" | "commit" | "builtAt"> & { startedAt: Date };

const health = { method: "get" as const, tags: ["health"] };

const asItSays = (schema: z.ZodType) => ({ description: "As it says.", content: { "application/json": { schema } } });

type Health = { shards: Shards; digests: StateDigests };

/** For whoever runs the service: is it alive, can it answer, and if not, why. */
export const addHealth = (app: ApiApp, { shards, digests }: Health, build: Build): void => {
  addOperation(
    app,
    createRoute({
      ...health,
      path: "/health",
      operationId: "health",
      summary: "Is the process alive?",
      description: "Says nothing of the database.",
      responses: { 200: asItSays(z.object({ status: z.literal("ok") })) },
    }),
    (c) => respondJson(c, { status: "ok" }),
  );

  const ready = createRoute({
    ...health,
    path: "/ready",
    operationId: "ready",
    summary: "Can every chain be answered for?",
    description: "Also 503 while a chain is being added. /health is for load balancers that must not care.",
    responses: {
      200: asItSays(z.object({ status: z.literal("ready") })),
      503: { description: "A chain cannot be answered for; the problem document says which, and why." },
    },
  });
  addOperation(app, ready, async (c) => {
    await shards.refresh();
    const reasons = [
      ...shards.silent.map((name) => `Shard "${name}" has not started.`),
      ...shards.states().flatMap(({ why }) => why ?? []),
    ];
    if (reasons.length > 0) throw notIndexed(reasons.join(" "));
    return respondJson(c, { status: "ready" });
  });

  const state = createRoute({
    ...health,
    path: "/status",
    operationId: "status",
    summary: "The state of every chain",
    description: "How fresh each chain is, and why it is not answered for.",
    responses: { 200: asItSays(StatusSchema) },
  });
  addOperation(app, state, async (c) => {
    const isReachable = await shards.refresh().then(
      () => true,
      (error: unknown) => {
        if (error instanceof Problem) return false;
        throw error;
      },
    );
    const status: Status = {
      ...build,
      startedAt: build.startedAt.toISOString(),
      database: isReachable ? "reachable" : "out of reach",
      missingShards: [...shards.silent],
      chains: shards.states().map(({ chainId, shard, why, freshness, ...chain }) => ({
        chainId,
        name: networkName(chainId),
        shard,
        ready: isReachable && why === null,
        reason: isReachable ? why : "The database is out of reach.",
        indexedBlock: freshness && Number(freshness.indexedBlock),
        indexedBlockTimestamp: freshness && Number(freshness.indexedBlockTimestamp),
        finalizedBlock: freshness && Number(freshness.finalizedBlock),
        reachedBlock: Number(freshness?.indexedBlock ?? chain.reachedBlock),
        newestBlock: newestBlockOf({ freshness, ...chain }),
        newestBlockTimestamp: Math.max(chain.newestBlockTimestamp, Number(freshness?.indexedBlockTimestamp ?? 0)),
        lagSeconds: freshness && lagSeconds(freshness.indexedBlockTimestamp),
        stateDigest: digests.find(chainId),
      })),
    };
    return respondJson(c, status, { "Cache-Control": "no-store" });
  });
};
