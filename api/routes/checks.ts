import { createRoute, z } from "@hono/zod-openapi";
import type { Check } from "../../registry/check-rule.ts";
import { FULL_RIGHTS, MAX_UINT256, NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import type { ApiApp, ApiContext } from "../context.ts";
import {
  chainId,
  coldWallet,
  contract,
  contractOf,
  hotWallet,
  numbers,
  rights,
  SAMPLES,
  tokenId,
  tokenIdLike,
} from "../parameters.ts";
import { DelegationChecks, type Question } from "../queries/check-delegation.ts";
import { defineParameters } from "../read-parameters.ts";
import { answerHeaders, respond } from "../respond.ts";
import type { Source } from "../source.ts";
import { addOperation } from "./add-operation.ts";
import { answers, OPTIONAL_KEY } from "./responses.ts";

const ANSWER = "The answer, and nothing else.";

const v1 = { method: "get" as const, tags: ["v1"], responses: answers(ANSWER, z.boolean(), true) };
const v2 = {
  method: "get" as const,
  tags: ["v2"],
  security: OPTIONAL_KEY,
  responses: answers(ANSWER, z.boolean(), true, { takesKey: true }),
};

/** A check that is answered with a balance. @param example - what the examples of its parameters give */
const v2Balance = (example: number) => {
  const balance = z.union([z.bigint().openapi({ type: "integer", minimum: 0 }), z.string()]).openapi({
    description: `The delegated balance: ${MAX_UINT256} under a broader delegation, 0 without any.`,
  });
  const description =
    "The delegated balance of this token: 2^256-1 if the delegate may act for its contract or for the entire wallet, 0 if there is no delegation.";
  return { ...v2, description, responses: answers(ANSWER, balance, example, { takesKey: true }) };
};

const v1Wallets = { delegate: hotWallet(), vault: coldWallet() };
const v2Wallets = { to: hotWallet("delegate"), from: coldWallet("vault") };
const v2TokenWallets = { delegate: hotWallet("to"), vault: coldWallet("from") };
// To a wallet that may act for everything, every balance is the same: the guest was given amounts.
const v2BalanceWallets = { delegate: hotWallet("to", SAMPLES.guest), vault: coldWallet("from") };

/** The eight checks. */
export const addChecks = (app: ApiApp, { database, shards, batches }: Source): void => {
  const checks = new DelegationChecks(database, batches.checks);

  const answer = async (
    c: ApiContext,
    version: RegistryVersion,
    check: Check,
    { chainId, vault, delegate, contract = NO_CONTRACT, tokenId = `${NO_TOKEN}`, rights = FULL_RIGHTS, numbers }: Asked,
  ): Promise<Response> => {
    const question = { chainId, vault, delegate, contract, tokenId, rights };
    const found = await checks.answer(shards.schemaOf(version, chainId), version, check, question);
    const headers = answerHeaders(shards.requireFresh(chainId, found.freshness));
    return respond(c, 200, numbers === "string" ? `"${found.value}"` : found.value, headers);
  };

  const v1Check = { check: shards.checkChain("v1") };
  const v2Check = { check: shards.checkChain("v2"), synonyms: { to: "delegate", from: "vault" } };
  const v2TokenCheck = { check: shards.checkChain("v2"), synonyms: { delegate: "to", vault: "from" } };

  const v1All = defineParameters({ ...v1Check, query: { ...v1Wallets, chainId } });
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

  const v1Contract = defineParameters({ ...v1Check, query: { ...v1Wallets, contract, chainId } });
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

  const v1Token = defineParameters({ ...v1Check, query: { ...v1Wallets, contract, tokenId, chainId } });
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

  const v2All = defineParameters({ ...v2Check, query: { ...v2Wallets, rights, chainId } });
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
    (c) => answer(c, "v2", "all", fromTo(v2All.read(c))),
  );

  const v2Contract = defineParameters({ ...v2Check, query: { ...v2Wallets, contract, rights, chainId } });
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
    (c) => answer(c, "v2", "contract", fromTo(v2Contract.read(c))),
  );

  const v2Erc721 = defineParameters({
    ...v2TokenCheck,
    query: { ...v2TokenWallets, contract, tokenId, rights, chainId },
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
    ...v2TokenCheck,
    query: { ...v2BalanceWallets, contract, tokenId: tokenIdLike("7"), rights, chainId, numbers },
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
    ...v2TokenCheck,
    query: { ...v2BalanceWallets, contract: contractOf(SAMPLES.coin), rights, chainId, numbers },
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

/** What a check may be asked with. What it does not ask about is zero. */
type Asked = Pick<Question, "chainId" | "vault" | "delegate"> & Partial<Question> & { numbers?: "number" | "string" };

/** v2 asks about an entire wallet, or a contract, by other names. */
const fromTo = <Values extends { to: Question["delegate"]; from: Question["vault"] }>({
  to,
  from,
  ...rest
}: Values) => ({
  ...rest,
  delegate: to,
  vault: from,
});
