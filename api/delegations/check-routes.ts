import { createRoute, type RouteConfig, z } from "@hono/zod-openapi";
import { CHECKS, type Check } from "../../registry/checks.ts";
import { MAX_UINT256 } from "../../registry/delegation.ts";
import type { ApiApp } from "../context.ts";
import { addOperation } from "../contract/add-operation.ts";
import { type AskedBlock, blocks, numbers, validateBlocks } from "../contract/parameters.ts";
import { describeAnswers, OPTIONAL_KEY } from "../contract/responses.ts";
import { answerHeaders, respond } from "../respond.ts";
import { DelegationChecks } from "./check-delegation.ts";
import { defineCheck, exampleOf } from "./check-parameters.ts";
import type { Dependencies } from "./dependencies.ts";

const BALANCE = z.union([z.bigint().openapi({ type: "integer", minimum: 0 }), z.string()]).openapi({
  description: `The delegated balance: ${MAX_UINT256} under a broader delegation, 0 without any.`,
});

const summaryOf = ({ name, takes, returns, satisfiedBy }: Check): string => {
  if (returns === "balance") return `How much of an ${satisfiedBy.at(-1)} token is delegated?`;
  if (takes.includes("tokenId")) return "May it act for a token?";
  return `May it act for ${name === "all" ? "the whole wallet" : "a contract"}?`;
};

const describeCheck = (check: Check): Omit<RouteConfig, "path" | "request"> & { path: string } => {
  const { version, name, path, returns, meaning } = check;
  const takesKey = version === "v2";
  const schema = returns === "balance" ? BALANCE : z.boolean();
  return {
    method: "get",
    path,
    operationId: `${version}Check${name[0]?.toUpperCase()}${name.slice(1)}`,
    tags: [version],
    ...(takesKey && { security: OPTIONAL_KEY }),
    summary: summaryOf(check),
    description: meaning,
    responses: describeAnswers("The answer, and nothing else.", schema, exampleOf(check).answer, { takesKey }),
  };
};

/** Adds an operation for each check. */
export const addChecks = (app: ApiApp, { database, shards, batches }: Dependencies): void => {
  const checks = new DelegationChecks(database, batches.checks);

  for (const check of CHECKS) {
    const { version, returns } = check;
    const validateChain = shards.validateChain(version);
    const { request, read } = defineCheck(check, {
      query: { ...blocks, ...(returns === "balance" && { numbers }) },
      validate: (values: AskedBlock & { chainId?: number }) => [...validateChain(values), ...validateBlocks(values)],
    });
    addOperation(app, createRoute({ ...describeCheck(check), request }), async (c) => {
      const { question, values } = read(c);
      const { chainId } = question;
      const schema = shards.findSchema(version, chainId);
      const asked = { block: shards.findBlock(chainId, values), minBlock: values.minBlock };
      const { value, freshness } = await checks.answer(schema, { ...question, block: asked.block });
      const headers = answerHeaders(shards.requireFresh(chainId, freshness, asked), asked);
      return respond(c, 200, values.numbers === "string" ? `"${value}"` : value, headers);
    });
  }
};
