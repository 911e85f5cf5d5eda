import { createRoute, z } from "@hono/zod-openapi";
import type { Check } from "../../registry/check-rule.ts";
import { MAX_UINT256 } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import type { ApiApp, ApiContext } from "../context.ts";
import { addOperation } from "../contract/add-operation.ts";
import { defineParameters } from "../contract/define-parameters.ts";
import {
  type AskedBlock,
  blocks,
  chainId,
  coldWallet,
  contract,
  contractWithExample,
  hotWallet,
  numbers,
  rights,
  SAMPLES,
  tokenId,
  tokenIdWithExample,
  validateBlocks,
} from "../contract/parameters.ts";
import { describeAnswers, OPTIONAL_KEY } from "../contract/responses.ts";
import { answerHeaders, respond } from "../respond.ts";
import type { Shards } from "../shards/shards.ts";
import { type CheckQuestion, type CheckValues, DelegationChecks, toQuestion } from "./check-delegation.ts";
import type { Dependencies } from "./dependencies.ts";

const ANSWER = "The answer, and nothing else.";

const v1 = { method: "get" as const, tags: ["v1"], responses: describeAnswers(ANSWER, z.boolean(), true) };
const v2 = {
  method: "get" as const,
  tags: ["v2"],
  security: OPTIONAL_KEY,
  responses: describeAnswers(ANSWER, z.boolean(), true, { takesKey: true }),
};

/** A check with a balance as its answer. @param example - the answer to its parameters' examples */
const v2Balance = (example: number) => {
  const balance = z.union([z.bigint().openapi({ type: "integer", minimum: 0 }), z.string()]).openapi({
    description: `The delegated balance: ${MAX_UINT256} under a broader delegation, 0 without any.`,
  });
  const description =
    "The delegated balance of this token: 2^256-1 if the delegate may act for its contract or for the entire wallet, 0 if there is no delegation.";
  return { ...v2, description, responses: describeAnswers(ANSWER, balance, example, { takesKey: true }) };
};

const v1Wallets = { delegate: hotWallet(), vault: coldWallet() };
const v2Wallets = { to: hotWallet("delegate"), from: coldWallet("vault") };
const v2TokenWallets = { delegate: hotWallet("to"), vault: coldWallet("from") };
// In the examples, the guest has delegations of amounts: a delegate of the entire wallet would get 2^256-1 every time.
const v2BalanceWallets = { delegate: hotWallet("to", SAMPLES.guest), vault: coldWallet("from") };

type Values = CheckValues & AskedBlock & { numbers?: "number" | "string" };

type AnswerCheck = (c: ApiContext, version: RegistryVersion, check: Check, values: Values) => Promise<Response>;

/** Adds the eight checks. */
export const addChecks = (app: ApiApp, { database, shards, batches }: Dependencies): void => {
  const checks = new DelegationChecks(database, batches.checks);

  const answer: AnswerCheck = async (c, version, check, values) => {
    const { chainId, numbers, minBlock } = values;
    const kind = { schema: shards.findSchema(version, chainId), version, check };
    const asked = { block: shards.findBlock(chainId, values), minBlock };
    const { value, freshness } = await checks.answer(kind, toQuestion(values, asked.block));
    const headers = answerHeaders(shards.requireFresh(chainId, freshness, asked), asked);
    return respond(c, 200, numbers === "string" ? `"${value}"` : value, headers);
  };

  addV1Checks(app, shards, answer);
  addV2Checks(app, shards, answer);
};

const validate = (shards: Shards, version: RegistryVersion) => {
  const validateChain = shards.validateChain(version);
  return (values: AskedBlock & { chainId?: number }) => [...validateChain(values), ...validateBlocks(values)];
};

const addV1Checks = (app: ApiApp, shards: Shards, answer: AnswerCheck): void => {
  const v1Rules = { validate: validate(shards, "v1") };

  const v1All = defineParameters({ ...v1Rules, query: { ...v1Wallets, chainId, ...blocks } });
  addOperation(
    app,
    createRoute({
      ...v1,
      path: "/registry/v1/check/all",
      operationId: "v1CheckAll",
      summary: "May it act for the whole wallet?",
      description: "True if the delegate may act for the entire vault.",
      request: v1All.request,
    }),
    (c) => answer(c, "v1", "all", v1All.read(c)),
  );

  const v1Contract = defineParameters({ ...v1Rules, query: { ...v1Wallets, contract, chainId, ...blocks } });
  addOperation(
    app,
    createRoute({
      ...v1,
      path: "/registry/v1/check/contract",
      operationId: "v1CheckContract",
      summary: "May it act for a contract?",
      description: "True if the delegate may act for this contract, or for the entire vault.",
      request: v1Contract.request,
    }),
    (c) => answer(c, "v1", "contract", v1Contract.read(c)),
  );

  const v1Token = defineParameters({ ...v1Rules, query: { ...v1Wallets, contract, tokenId, chainId, ...blocks } });
  addOperation(
    app,
    createRoute({
      ...v1,
      path: "/registry/v1/check/token",
      operationId: "v1CheckToken",
      summary: "May it act for a token?",
      description: "True if the delegate may act for this token, for its contract, or for the entire vault.",
      request: v1Token.request,
    }),
    (c) => answer(c, "v1", "token", v1Token.read(c)),
  );
};

const addV2Checks = (app: ApiApp, shards: Shards, answer: AnswerCheck): void => {
  const v2Rules = { validate: validate(shards, "v2"), synonyms: { to: "delegate", from: "vault" } };
  const v2TokenRules = { validate: validate(shards, "v2"), synonyms: { delegate: "to", vault: "from" } };

  const v2All = defineParameters({ ...v2Rules, query: { ...v2Wallets, rights, chainId, ...blocks } });
  addOperation(
    app,
    createRoute({
      ...v2,
      path: "/registry/v2/check/all",
      operationId: "v2CheckAll",
      summary: "May it act for the whole wallet?",
      description: "True if `to` may act for the entire wallet `from`.",
      request: v2All.request,
    }),
    (c) => answer(c, "v2", "all", renameWallets(v2All.read(c))),
  );

  const v2Contract = defineParameters({ ...v2Rules, query: { ...v2Wallets, contract, rights, chainId, ...blocks } });
  addOperation(
    app,
    createRoute({
      ...v2,
      path: "/registry/v2/check/contract",
      operationId: "v2CheckContract",
      summary: "May it act for a contract?",
      description: "True if `to` may act for this contract, or for the entire wallet `from`.",
      request: v2Contract.request,
    }),
    (c) => answer(c, "v2", "contract", renameWallets(v2Contract.read(c))),
  );

  const v2Erc721 = defineParameters({
    ...v2TokenRules,
    query: { ...v2TokenWallets, contract, tokenId, rights, chainId, ...blocks },
  });
  addOperation(
    app,
    createRoute({
      ...v2,
      path: "/registry/v2/check/erc721",
      operationId: "v2CheckErc721",
      summary: "May it act for a token?",
      description: "True if the delegate may act for this ERC721 token, for its contract, or for the entire wallet.",
      request: v2Erc721.request,
    }),
    (c) => answer(c, "v2", "erc721", v2Erc721.read(c)),
  );

  const v2Erc1155 = defineParameters({
    ...v2TokenRules,
    query: { ...v2BalanceWallets, contract, tokenId: tokenIdWithExample("7"), rights, chainId, ...blocks, numbers },
  });
  addOperation(
    app,
    createRoute({
      ...v2Balance(5),
      path: "/registry/v2/check/erc1155",
      operationId: "v2CheckErc1155",
      summary: "How much of an ERC1155 token is delegated?",
      request: v2Erc1155.request,
    }),
    (c) => answer(c, "v2", "erc1155", v2Erc1155.read(c)),
  );

  const v2Erc20 = defineParameters({
    ...v2TokenRules,
    query: { ...v2BalanceWallets, contract: contractWithExample(SAMPLES.coin), rights, chainId, ...blocks, numbers },
  });
  addOperation(
    app,
    createRoute({
      ...v2Balance(250000),
      path: "/registry/v2/check/erc20",
      operationId: "v2CheckErc20",
      summary: "How much of an ERC20 token is delegated?",
      request: v2Erc20.request,
    }),
    (c) => answer(c, "v2", "erc20", v2Erc20.read(c)),
  );
};

/** v2 names the wallets "to" and "from" in checks of an entire wallet or a contract. */
const renameWallets = <Values extends { to: CheckQuestion["delegate"]; from: CheckQuestion["vault"] }>({
  to,
  from,
  ...rest
}: Values) => ({
  ...rest,
  delegate: to,
  vault: from,
});
