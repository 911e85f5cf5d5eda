import { type Check, isBalanceCheck } from "../../registry/check-rule.ts";
import { FULL_RIGHTS, MAX_UINT256, NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import { answerHeaders, checkChain, type Source } from "../answering.ts";
import { respond } from "../exchange.ts";
import { addOperation } from "../operation.ts";
import {
  chainId,
  coldWallet,
  contract,
  hotWallet,
  numbers,
  type ParametersOf,
  rights,
  SAMPLES,
  tokenId,
  withExample,
} from "../parameters.ts";
import { DelegationChecks, type Question } from "../queries/check-delegation.ts";
import { z } from "../zod.ts";
import { answers } from "./responses.ts";
import type { Routes } from "./routes.ts";

const v1Wallets = { delegate: hotWallet(), vault: coldWallet() };
const v2Wallets = { to: hotWallet({ synonym: "delegate" }), from: coldWallet({ synonym: "vault" }) };
const v2TokenWallets = { delegate: hotWallet({ synonym: "to" }), vault: coldWallet({ synonym: "from" }) };
// To a wallet that may act for everything, every balance is the same: the guest was given amounts.
const v2BalanceWallets = { ...v2TokenWallets, delegate: withExample(v2TokenWallets.delegate, SAMPLES.guest) };

type Definition<Values> = {
  version: RegistryVersion;
  check: Check;
  summary: string;
  description: string;
  parameters: ParametersOf<Values>;
  question: (values: Values) => Question;
  /** What the examples of its parameters give, where that is not true. */
  example?: number;
};

/** What a check asks. What it does not ask about is zero; from one literal, as every request makes one. */
const questionOf = ({
  chainId,
  vault,
  delegate,
  contract = NO_CONTRACT,
  tokenId = `${NO_TOKEN}`,
  rights = FULL_RIGHTS,
}: Pick<Question, "chainId" | "vault" | "delegate"> & Partial<Question>): Question => ({
  chainId,
  vault,
  delegate,
  contract,
  tokenId,
  rights,
});

/** The eight checks. */
export const addChecks = (routes: Routes, { database, shards, batches }: Omit<Source, "log">): void => {
  const checks = new DelegationChecks(database, batches.checks);

  const add = <Values extends { chainId: number }>({
    version,
    check,
    question,
    example,
    ...definition
  }: Definition<Values>) => {
    const isBalance = isBalanceCheck(check);
    const schema = isBalance
      ? z.union([z.bigint().openapi({ type: "integer", minimum: 0 }), z.string()]).openapi({
          description: `The delegated balance: ${MAX_UINT256} under a broader delegation, 0 without any.`,
        })
      : z.boolean();
    addOperation(
      routes,
      {
        ...definition,
        path: `/registry/${version}/check/${check}`,
        operationId: `${version}Check${check[0]?.toUpperCase()}${check.slice(1)}`,
        tag: version,
        takesKey: version === "v2",
        check: checkChain(shards, version),
        responses: answers("The answer, and nothing else.", schema, example ?? true, {
          takesKey: version === "v2",
        }),
      },
      async (values, exchange) => {
        const asked = question(values);
        const { chainId } = asked;
        const { value, freshness } = await checks.answer(shards.schemaOf(version, chainId), version, check, asked);
        const isText = isBalance && "numbers" in values && values.numbers === "string";
        const headers = answerHeaders(shards.requireFresh(chainId, freshness));
        return respond(exchange, 200, isText ? `"${value}"` : value, headers);
      },
    );
  };

  add({
    version: "v1",
    check: "all",
    summary: "May it act for the whole wallet?",
    description: "True if the delegate may act for the entire vault.",
    parameters: { ...v1Wallets, chainId },
    question: (values) => questionOf(values),
  });
  add({
    version: "v1",
    check: "contract",
    summary: "May it act for a contract?",
    description: "True if the delegate may act for this contract, or for the entire vault.",
    parameters: { ...v1Wallets, contract, chainId },
    question: (values) => questionOf(values),
  });
  add({
    version: "v1",
    check: "token",
    summary: "May it act for a token?",
    description: "True if the delegate may act for this token, for its contract, or for the entire vault.",
    parameters: { ...v1Wallets, contract, tokenId, chainId },
    question: (values) => questionOf(values),
  });

  add({
    version: "v2",
    check: "all",
    summary: "May it act for the whole wallet?",
    description: "True if `to` may act for the entire wallet `from`.",
    parameters: { ...v2Wallets, rights, chainId },
    question: ({ chainId, to, from, rights }) => questionOf({ vault: from, delegate: to, chainId, rights }),
  });
  add({
    version: "v2",
    check: "contract",
    summary: "May it act for a contract?",
    description: "True if `to` may act for this contract, or for the entire wallet `from`.",
    parameters: { ...v2Wallets, contract, rights, chainId },
    question: ({ chainId, to, from, contract, rights }) =>
      questionOf({ vault: from, delegate: to, chainId, contract, rights }),
  });
  add({
    version: "v2",
    check: "erc721",
    summary: "May it act for a token?",
    description: "True if the delegate may act for this ERC721 token, for its contract, or for the entire wallet.",
    parameters: { ...v2TokenWallets, contract, tokenId, rights, chainId },
    question: (values) => questionOf(values),
  });
  add({
    version: "v2",
    check: "erc1155",
    summary: "How much of an ERC1155 token is delegated?",
    description:
      "The delegated balance of this token: 2^256-1 if the delegate may act for its contract or for the entire wallet, 0 if there is no delegation.",
    parameters: { ...v2BalanceWallets, contract, tokenId: withExample(tokenId, "7"), rights, chainId, numbers },
    question: (values) => questionOf(values),
    example: 5,
  });
  add({
    version: "v2",
    check: "erc20",
    summary: "How much of an ERC20 token is delegated?",
    description:
      "The delegated balance of this token: 2^256-1 if the delegate may act for its contract or for the entire wallet, 0 if there is no delegation.",
    parameters: {
      ...v2BalanceWallets,
      contract: withExample(contract, SAMPLES.coin),
      rights,
      chainId,
      numbers,
    },
    question: (values) => questionOf(values),
    example: 250000,
  });
};
