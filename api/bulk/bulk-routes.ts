import { createRoute, z } from "@hono/zod-openapi";
import { CHECK_NAMES } from "../../registry/checks.ts";
import { type ApiApp, type ApiContext, nameCaller } from "../context.ts";
import { addOperation } from "../contract/add-operation.ts";
import { badParameters, defineParameters } from "../contract/define-parameters.ts";
import { blocks, SAMPLES, validateBlocks } from "../contract/parameters.ts";
import { parseBody, readBody } from "../contract/read-json.ts";
import { describeBulkAnswers, OPTIONAL_KEY, ProblemSchema } from "../contract/responses.ts";
import type { Dependencies } from "../delegations/dependencies.ts";
import { Problem, problemDocument } from "../problem.ts";
import { ProofSchema } from "../proofs/proof-schema.ts";
import { PROOF_COST } from "../proofs/proofs.ts";
import { respond } from "../respond.ts";
import { renderInSlices } from "../slices.ts";
import { type Answer, BulkChecks } from "./bulk-checks.ts";
import { isId } from "./read-check.ts";

const MAX_CHECKS = 1_000;
/** Their proofs have some 2 MB in large tries. */
const MAX_PROVEN_CHECKS = 25;
/** Room for 1,000 checks with a key, and for the 25 of the rate limit without one. */
const MAX_BYTES = 1_000_000;
const MAX_BYTES_WITHOUT_KEY = 32_768;

const number = z.union([z.string(), z.int().nonnegative().transform(String)], { error: "must be a block number" });

const Body = z
  .object(
    {
      checks: z
        .array(z.unknown(), { error: "must be an array of checks" })
        .max(MAX_CHECKS, { error: `must have at most ${MAX_CHECKS.toLocaleString("en")} entries` }),
      block: number.optional().pipe(blocks.block),
      minBlock: number.optional().pipe(blocks.minBlock),
      timestamp: z.never({ error: "is not taken here: use block or minBlock" }).optional(),
      proof: z.boolean({ error: "must be true or false" }).default(false),
    },
    { error: "must be a JSON object with checks" },
  )
  .refine(({ checks, proof }) => !proof || checks.length <= MAX_PROVEN_CHECKS, {
    path: ["checks"],
    error: `must have at most ${MAX_PROVEN_CHECKS} entries with proof`,
  });

const QUERY = defineParameters({ query: {}, useInstead: "use block or minBlock in the body" });

const id = z.union([z.string(), z.int()]).optional().openapi({ description: "Returned with the answer." });
const digits = z.union([z.string(), z.int()]);

/** The body and the answer in the OpenAPI document. */
const BodySchema = z
  .object({
    checks: z
      .array(
        z.object({
          id,
          registry: z.enum(["v1", "v2"]),
          check: z.enum(CHECK_NAMES),
          delegate: z.string().optional().openapi({ description: "The hot wallet; on v2, or `to`." }),
          to: z.string().optional().openapi({ description: "The hot wallet, on v2." }),
          vault: z.string().optional().openapi({ description: "The cold wallet; on v2, or `from`." }),
          from: z.string().optional().openapi({ description: "The cold wallet, on v2." }),
          contract: z.string().optional(),
          tokenId: digits.optional().openapi({ description: "Send values above 2^53 as a string." }),
          rights: z.string().optional(),
          chainId: z.int().optional().openapi({ description: "1 by default." }),
        }),
      )
      .openapi({ maxItems: MAX_CHECKS }),
    block: digits.optional().openapi({
      description: "A past block for all answers, or `finalized`. A number only with checks on one network.",
    }),
    minBlock: digits.optional().openapi({ description: "A block that all answers must include." }),
    proof: z
      .boolean()
      .optional()
      .openapi({
        description: `Adds its proof to each answer. At most ${MAX_PROVEN_CHECKS} checks then, and each counts as ten requests.`,
      }),
  })
  .openapi("Checks");

const AnswersSchema = z
  .object({
    answers: z.array(
      z.object({
        id,
        result: z
          .union([z.boolean(), z.string()])
          .optional()
          .openapi({ description: "True, false, or the digits of a balance." }),
        proof: ProofSchema.optional().openapi({ description: "With `proof`: what a check with `proof=true` returns." }),
        problem: ProblemSchema.optional().openapi({ description: "Instead of a result: why there is no answer." }),
      }),
    ),
    blocks: z
      .record(z.string(), z.object({ number: z.int(), timestamp: z.int().nullable(), final: z.boolean() }))
      .openapi({ description: "By chain id: the block of all its answers. The timestamp of a past block is null." }),
  })
  .openapi("CheckAnswers");

const { vault, hot, guest, nft } = SAMPLES;
const EXAMPLE = {
  checks: [
    { id: "a", registry: "v2", check: "all", to: hot, from: vault },
    { id: "b", registry: "v1", check: "token", delegate: guest, vault, contract: nft, tokenId: "8521" },
    {
      id: "c",
      registry: "v2",
      check: "erc1155",
      to: guest,
      from: vault,
      contract: nft,
      tokenId: "7",
      rights: "airdrop",
    },
  ],
};
const EXAMPLE_ANSWER = {
  answers: [
    { id: "a", result: true },
    { id: "b", result: false },
    { id: "c", result: "5" },
  ],
  blocks: { 1: { number: 21_000_000, timestamp: 1_730_000_000, final: false } },
};

const ROUTE = createRoute({
  method: "post",
  path: "/registry/checks",
  operationId: "checks",
  tags: ["bulk"],
  summary: "Many checks at once",
  description: `Answers up to ${MAX_CHECKS.toLocaleString("en")} checks of any kind, registry and network, in their order. Each has a result or a problem of its own, and counts as one request.`,
  security: OPTIONAL_KEY,
  request: { body: { required: true, content: { "application/json": { schema: BodySchema, example: EXAMPLE } } } },
  responses: describeBulkAnswers("An answer for each check.", AnswersSchema, EXAMPLE_ANSWER),
});

/** Adds the operation that answers many checks at once. */
export const addBulkChecks = (app: ApiApp, { database, shards, proofs }: Dependencies): void => {
  const bulk = new BulkChecks(database, shards);
  addOperation(app, ROUTE, async (c) => {
    QUERY.read(c);
    const { checks, proof, ...asked } = parseBody(await readChecks(c), Body);
    const errors = validateBlocks(asked);
    if (errors.length > 0) throw badParameters(errors);
    await c.get("charge")(Math.max(0, checks.length * (proof ? PROOF_COST : 1) - 1));
    // The nodes may take long: others need not wait for them.
    if (proof) c.get("endTurn")();
    const { answers, blocks } = proof
      ? await bulk.prove(proofs, nameCaller(c.get("caller")), checks, asked)
      : await bulk.answer(checks, asked);
    const json = await renderInSlices(
      answers,
      (answer, place) => `{${renderId(checks[place])}${renderAnswer(answer)}}`,
    );
    const body = `{"answers":[${json}],"blocks":${JSON.stringify(Object.fromEntries(blocks))}}`;
    return respond(c, 200, body, { "Content-Type": "application/json", "Cache-Control": "no-store" });
  });
};

const readChecks = (c: ApiContext): Promise<string> =>
  c.get("caller").key
    ? readBody(c, MAX_BYTES)
    : readBody(c, MAX_BYTES_WITHOUT_KEY, `; with an API key ${MAX_BYTES.toLocaleString("en")}`);

/** A check's id, if it has one. */
const renderId = (check: unknown): string => {
  const id = typeof check === "object" && check !== null && "id" in check ? check.id : undefined;
  return isId(id) ? `"id":${JSON.stringify(id)},` : "";
};

const renderAnswer = (answer: Answer): string => {
  if (answer instanceof Problem) return `"problem":${problemDocument(answer).body}`;
  if (typeof answer !== "string") return `"result":${JSON.stringify(answer.result)},"proof":${JSON.stringify(answer)}`;
  return `"result":${answer === "true" || answer === "false" ? answer : `"${answer}"`}`;
};
