import { createRoute, z } from "@hono/zod-openapi";
import type { ApiApp } from "../context.ts";
import { addOperation } from "../contract/add-operation.ts";
import { defineParameters } from "../contract/define-parameters.ts";
import { coldWallet, hotWallet, SAMPLES } from "../contract/parameters.ts";
import { describePages, OPTIONAL_KEY } from "../contract/responses.ts";
import type { Dependencies } from "../delegations/dependencies.ts";
import type { ParameterError } from "../problem.ts";
import { answerGrants, type GrantsValues, nameGrants } from "./answer-grants.ts";
import {
  checkQuery,
  networkQuery,
  validateCursor,
  validateNetworks,
  validateScope,
  walletParams,
} from "./wallet-parameters.ts";
import { address, DelegationSchema, EXAMPLE_DELEGATION, EXAMPLE_PAGE, pageFields } from "./wallet-schemas.ts";

const granting = {
  amount: z.string().nullable().openapi({
    description: "The balance that the check grants, for `erc20` and `erc1155`: 2^256-1 under a broader delegation.",
  }),
  delegations: z.array(DelegationSchema).openapi({ description: "The delegations that grant it, the broadest first." }),
};

const ORDER =
  "By chain id, then the broadest delegation, then the oldest. A wallet is listed once for each network, with the delegations of both registries.";

/** Adds the questions for which wallets a wallet may act, and which wallets may act for it. */
export const addGrants = (app: ApiApp, dependencies: Pick<Dependencies, "database" | "shards">): void => {
  const { shards } = dependencies;
  const validate = (values: Partial<GrantsValues>): ParameterError[] => [
    ...validateScope(values),
    ...validateNetworks(shards, values),
  ];
  const validateAll = (values: GrantsValues): ParameterError[] => validateCursor(values.cursor, nameGrants(values));

  const vaults = defineParameters({
    params: walletParams,
    query: { ...checkQuery, vault: coldWallet().optional(), ...networkQuery },
    lists: ["chainId"],
    validate,
    validateAll: ({ vault: other, ...values }) => validateAll({ ...values, other, list: "vaults" }),
  });
  addOperation(
    app,
    createRoute({
      method: "get",
      path: "/wallets/{wallet}/vaults",
      operationId: "walletVaults",
      tags: ["wallets"],
      summary: "For which wallets may it act?",
      description: `Every cold wallet for which the check is true, or its balance above 0, with the delegations that grant it. ${ORDER}`,
      security: OPTIONAL_KEY,
      request: vaults.request,
      responses: describePages(
        "A page of vaults.",
        z.object({
          wallet: address,
          check: z.string(),
          vaults: z.array(z.object({ chainId: z.int(), vault: address, ...granting })),
          ...pageFields,
        }),
        {
          wallet: SAMPLES.hot,
          check: "all",
          vaults: [{ chainId: 1, vault: SAMPLES.vault, amount: null, delegations: [EXAMPLE_DELEGATION] }],
          ...EXAMPLE_PAGE,
        },
      ),
    }),
    (c) => {
      const { vault: other, ...values } = vaults.read(c);
      return answerGrants(c, dependencies, { ...values, other, list: "vaults" });
    },
  );

  const delegates = defineParameters({
    params: { wallet: walletParams.wallet.openapi({ example: SAMPLES.vault }) },
    query: { ...checkQuery, delegate: hotWallet().optional(), ...networkQuery },
    lists: ["chainId"],
    validate,
    validateAll: ({ delegate: other, ...values }) => validateAll({ ...values, other, list: "delegates" }),
  });
  addOperation(
    app,
    createRoute({
      method: "get",
      path: "/wallets/{wallet}/delegates",
      operationId: "walletDelegates",
      tags: ["wallets"],
      summary: "Which wallets may act for it?",
      description: `Every hot wallet for which the check is true, or its balance above 0, with the delegations that grant it. ${ORDER}`,
      security: OPTIONAL_KEY,
      request: delegates.request,
      responses: describePages(
        "A page of delegates.",
        z.object({
          wallet: address,
          check: z.string(),
          delegates: z.array(z.object({ chainId: z.int(), delegate: address, ...granting })),
          ...pageFields,
        }),
        {
          wallet: SAMPLES.vault,
          check: "all",
          delegates: [{ chainId: 1, delegate: SAMPLES.hot, amount: null, delegations: [EXAMPLE_DELEGATION] }],
          ...EXAMPLE_PAGE,
        },
      ),
    }),
    (c) => {
      const { delegate: other, ...values } = delegates.read(c);
      return answerGrants(c, dependencies, { ...values, other, list: "delegates" });
    },
  );
};
