import { createRoute, type RouteConfig, z } from "@hono/zod-openapi";
import type { Address, Hex } from "viem";
import { CHECKS, type Check, type CheckName, takes } from "../../registry/checks.ts";
import { FULL_RIGHTS, MAX_UINT256, NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";
import { type ApiApp, type ApiContext, nameCaller } from "../context.ts";
import { addOperation } from "../contract/add-operation.ts";
import { defineParameters, type Shape } from "../contract/define-parameters.ts";
import {
  type AskedBlock,
  blocks,
  chainId,
  coldWallet,
  contractWithExample,
  hotWallet,
  numbers,
  proof,
  rights,
  SAMPLES,
  tokenIdWithExample,
  validateBlocks,
} from "../contract/parameters.ts";
import { describeAnswers, OPTIONAL_KEY } from "../contract/responses.ts";
import { Problem } from "../problem.ts";
import { ProofSchema } from "../proofs/proof-schema.ts";
import { PROOF_COST } from "../proofs/proofs.ts";
import { answerHeaders, respond, respondJson } from "../respond.ts";
import type { Shards } from "../shards/shards.ts";
import type { CheckQuestion } from "./check-delegation.ts";
import type { Dependencies } from "./dependencies.ts";

/** Parameters that a check's example asks about, and its answer: with the sandbox's sample delegations, a true one. */
type Example = { delegate: Address; contract: Address; tokenId: string; answer: boolean | number };

const EXAMPLE: Example = { delegate: SAMPLES.hot, contract: SAMPLES.nft, tokenId: "8520", answer: true };
// The guest has delegations of amounts: a delegate of the entire wallet would get 2^256-1 every time.
const BALANCE_EXAMPLES: Partial<Record<CheckName, Partial<Example>>> = {
  erc20: { delegate: SAMPLES.guest, contract: SAMPLES.coin, answer: 250000 },
  erc1155: { delegate: SAMPLES.guest, tokenId: "7", answer: 5 },
};

const exampleOf = ({ name }: Check): Example => ({ ...EXAMPLE, ...BALANCE_EXAMPLES[name] });

const SYNONYMS = { delegate: "to", to: "delegate", vault: "from", from: "vault" } as const;

type Values = AskedBlock & { chainId: number; contract?: Address; tokenId?: string; rights?: Hex } & {
  [name in "delegate" | "vault" | "to" | "from"]?: Address;
};

type Options = Pick<Parameters<typeof defineParameters>[0], "useInstead"> & {
  /** Names of the hot and the cold wallet. */
  wallets?: Check["wallets"];
  /** Parameters of the request besides the check's own. */
  query?: Shape;
  validate: ReturnType<Shards["validateChain"]>;
};

/** Defines the parameters of a check: of an operation, or of an item in a body. */
export const defineCheck = (check: Check, { wallets = check.wallets, query, ...rules }: Options) => {
  const [hot, cold] = wallets;
  const synonyms = check.version === "v2" ? SYNONYMS : undefined;
  const example = exampleOf(check);
  const parameters = defineParameters({
    query: {
      [hot]: hotWallet(synonyms?.[hot], example.delegate),
      [cold]: coldWallet(synonyms?.[cold]),
      ...(takes(check, "contract") && { contract: contractWithExample(example.contract) }),
      ...(takes(check, "tokenId") && { tokenId: tokenIdWithExample(example.tokenId) }),
      ...(takes(check, "rights") && { rights }),
      chainId,
      ...query,
    },
    ...(synonyms && { synonyms }),
    ...rules,
  });
  const toQuestion = (values: Values): CheckQuestion => {
    const { chainId, contract = NO_CONTRACT, tokenId = `${NO_TOKEN}`, rights = FULL_RIGHTS } = values;
    const { [hot]: delegate, [cold]: vault } = values;
    if (!delegate || !vault) throw new Error(`The wallets of check ${check.name} are required.`);
    return { check, chainId, vault, delegate, contract, tokenId, rights };
  };
  return {
    request: parameters.request,
    /** Reads a request: the question, and the other parameters. */
    read: (c: ApiContext) => {
      const values = parameters.read(c) as Values & { numbers?: "number" | "string"; proof?: boolean };
      return { question: toQuestion(values), values };
    },
    /** Reads texts from elsewhere. @param textsOf - returns the texts of a parameter */
    readTexts: (textsOf: (name: string) => readonly string[]) => toQuestion(parameters.readTexts(textsOf) as Values),
  };
};

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
  const schema = z.union([returns === "balance" ? BALANCE : z.boolean(), ProofSchema]);
  return {
    method: "get",
    path,
    operationId: `${version}Check${name[0]?.toUpperCase()}${name.slice(1)}`,
    tags: [version],
    ...(takesKey && { security: OPTIONAL_KEY }),
    summary: summaryOf(check),
    description: meaning,
    responses: describeAnswers(
      "The answer, and nothing else; with `proof=true` also its proof.",
      schema,
      exampleOf(check).answer,
      { takesKey, hasProofs: true },
    ),
  };
};

/** Adds an operation for each check. */
export const addChecks = (app: ApiApp, { shards, checks, proofs }: Dependencies): void => {
  for (const check of CHECKS) {
    const { version, returns } = check;
    const validateChain = shards.validateChain(version);
    const { request, read } = defineCheck(check, {
      query: { ...blocks, proof, ...(returns === "balance" && { numbers }) },
      validate: (values: AskedBlock & { chainId?: number }) => [...validateChain(values), ...validateBlocks(values)],
    });
    addOperation(app, createRoute({ ...describeCheck(check), request }), async (c) => {
      const { question, values } = read(c);
      const { chainId } = question;
      if (values.proof) {
        proofs.requireProvable(chainId);
        await c.get("charge")(PROOF_COST - 1);
        // The node may take long: others need not wait for it.
        c.get("endTurn")();
        const proven = (await proofs.prove(nameCaller(c.get("caller")), [question], values)).get(question);
        if (!proven || proven instanceof Problem) throw proven;
        return respondJson(c, proven.proof, answerHeaders(proven.freshness, { block: proven.block }));
      }
      const schema = shards.findSchema(version, chainId);
      const asked = { block: shards.findBlock(chainId, values), minBlock: values.minBlock };
      const { value, freshness } = await checks.answer(schema, { ...question, block: asked.block });
      const headers = answerHeaders(shards.requireFresh(chainId, freshness, asked), asked);
      return respond(c, 200, values.numbers === "string" ? `"${value}"` : value, headers);
    });
  }
};
