import { createRoute, z } from "@hono/zod-openapi";
import { networkName } from "../../registry/networks.ts";
import type { ApiApp } from "../context.ts";
import { addOperation } from "../contract/add-operation.ts";
import { TOO_MANY_TO_PAGES } from "../contract/responses.ts";
import { notIndexed, Problem } from "../problem.ts";
import { respondJson } from "../respond.ts";
import { newestKnownBlock, type Shards } from "../shards/shards.ts";
import { showVerification, VerificationSchema } from "../shards/show-verification.ts";
import type { StateDigests } from "./state-digests.ts";

const digest = z.string().nullable().openapi({ description: "null if the chain does not have this registry." });

const DigestSchema = z
  .object({
    block: z.int().openapi({ description: "The block of the digests: final, and a multiple of 1,000." }),
    v1: digest,
    v2: digest,
  })
  .nullable()
  .openapi({
    description:
      "A hash over all active delegations of each registry: equal indexes have equal digests. Computed in the background; null until then.",
  });

const ChainSchema = z
  .object({
    chainId: z.int(),
    name: z.string(),
    shard: z.string().openapi({ description: "The schema of the chain's index." }),
    ready: z.boolean(),
    reason: z.string().nullable().openapi({ description: "The reason why `ready` is false; null if it is true." }),
    indexedBlock: z.int().nullable().openapi({ description: "The newest block that answers include." }),
    indexedBlockTimestamp: z.int().nullable(),
    finalizedBlock: z
      .int()
      .nullable()
      .openapi({ description: "The newest indexed block that the service treats as final." }),
    reachedBlock: z.int().openapi({ description: "Progress of the index; behind the chain during a backfill." }),
    newestBlock: z.int().openapi({ description: "The chain's newest block, as the indexer last saw it." }),
    newestBlockTimestamp: z.int(),
    lagSeconds: z.int().nullable().openapi({
      description:
        "Maximum time that answers are behind the chain: the age of the newest indexed block, or on a quiet network the time since the indexer saw that it is the chain's newest.",
    }),
    verification: VerificationSchema,
    stateDigest: DigestSchema,
  })
  .openapi("ChainStatus");

const StatusSchema = z
  .object({
    version: z.string(),
    commit: z.string().nullable().openapi({ description: "The commit of the image; null outside a container." }),
    builtAt: z.string().nullable().openapi({ description: "Build time of the image; null outside a container." }),
    startedAt: z.iso.datetime(),
    database: z.enum(["reachable", "out of reach"]),
    missingShards: z.array(z.string()).openapi({ description: "Shards that have not registered their chains." }),
    chains: z.array(ChainSchema),
  })
  .openapi("Status");

type Status = z.infer<typeof StatusSchema>;

/** The running version, and its start. */
export type Build = Pick<Status, "version" | "commit" | "builtAt"> & { startedAt: Date };

const health = { method: "get" as const, tags: ["health"] };

const json = (description: string, schema: z.ZodType) => ({ description, content: { "application/json": { schema } } });

type Health = { shards: Shards; digests: StateDigests };

/** Adds routes for operators: liveness, readiness, and the state of every chain. */
export const addHealth = (app: ApiApp, { shards, digests }: Health, build: Build): void => {
  addOperation(
    app,
    createRoute({
      ...health,
      path: "/health",
      operationId: "health",
      summary: "Is the process alive?",
      description: "Does not check the database.",
      responses: {
        200: json("The process is alive.", z.object({ status: z.literal("ok") })),
        ...TOO_MANY_TO_PAGES,
      },
    }),
    (c) => respondJson(c, { status: "ok" }),
  );

  const ready = createRoute({
    ...health,
    path: "/ready",
    operationId: "ready",
    summary: "Can the service answer for every chain?",
    description: "Also 503 while a chain is being added. Load balancers that should ignore single chains use /health.",
    responses: {
      200: json("The service answers for every chain.", z.object({ status: z.literal("ready") })),
      503: { description: "A chain is not ready. The problem document names it and the reason." },
      ...TOO_MANY_TO_PAGES,
    },
  });
  addOperation(app, ready, async (c) => {
    await shards.refreshIfOld();
    const reasons = [
      ...shards.notStarted.map((name) => `Shard "${name}" has not started.`),
      ...shards.chainStates().flatMap(({ notReadyReason }) => notReadyReason ?? []),
    ];
    if (reasons.length > 0) throw notIndexed(reasons.join(" "));
    return respondJson(c, { status: "ready" });
  });

  const state = createRoute({
    ...health,
    path: "/status",
    operationId: "status",
    summary: "The state of every chain",
    description: "The freshness of each chain, and the reason if it is not ready.",
    responses: { 200: json("The state of the service and its chains.", StatusSchema), ...TOO_MANY_TO_PAGES },
  });
  addOperation(app, state, async (c) => {
    const isReachable = await shards.refreshIfOld().then(
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
      missingShards: [...shards.notStarted],
      chains: shards.chainStates().map(({ chainId, shard, notReadyReason, freshness, lagSeconds, ...chain }) => ({
        chainId,
        name: networkName(chainId),
        shard,
        ready: isReachable && notReadyReason === null,
        reason: isReachable ? notReadyReason : "The database is out of reach.",
        indexedBlock: freshness && Number(freshness.indexedBlock),
        indexedBlockTimestamp: freshness && Number(freshness.indexedBlockTimestamp),
        finalizedBlock: freshness && Number(freshness.finalizedBlock),
        reachedBlock: Number(freshness?.indexedBlock ?? chain.reachedBlock),
        newestBlock: newestKnownBlock({ freshness, ...chain }),
        newestBlockTimestamp: Math.max(chain.newestBlockTimestamp, Number(freshness?.indexedBlockTimestamp ?? 0)),
        lagSeconds,
        verification: showVerification(chain.verification),
        stateDigest: digests.find(chainId),
      })),
    };
    return respondJson(c, status, { "Cache-Control": "no-store" });
  });
};
