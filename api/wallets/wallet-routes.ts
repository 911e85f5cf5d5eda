import { createRoute, type RouteConfig, z } from "@hono/zod-openapi";
import type { ApiApp, ApiContext } from "../context.ts";
import { addOperation } from "../contract/add-operation.ts";
import { defineParameters } from "../contract/define-parameters.ts";
import { coldWallet, hotWallet, SAMPLES } from "../contract/parameters.ts";
import { describePages, OPTIONAL_KEY } from "../contract/responses.ts";
import type { Dependencies } from "../delegations/dependencies.ts";
import { grants } from "./find-grants.ts";
import { activeDelegations } from "./list-active.ts";
import { history } from "./read-history.ts";
import {
  address,
  ChangeSchema,
  DelegationSchema,
  direction,
  EXAMPLE_CHANGE,
  EXAMPLE_DELEGATION,
  EXAMPLE_PAGE,
  pageFields,
} from "./wallet-json.ts";
import { answerList } from "./wallet-list.ts";
import {
  type CheckValues,
  checkQuery,
  chooseCheck,
  findNetworks,
  type NetworkValues,
  networkQuery,
  validateCheck,
  validateNetworks,
  walletParams,
} from "./wallet-parameters.ts";

const granting = {
  amount: z.string().nullable().openapi({
    description: "The balance that the check grants, for `erc20` and `erc1155`: 2^256-1 under a broader delegation.",
  }),
  delegations: z.array(DelegationSchema).openapi({ description: "The delegations that grant it, the broadest first." }),
};
const EXAMPLE_GRANT = { amount: null, delegations: [EXAMPLE_DELEGATION] };

const GRANTS_ORDER =
  "By chain id, then the broadest delegation, then the oldest. A wallet is listed once for each network, with the delegations of both registries.";

type Contract = Pick<RouteConfig, "request" | "summary" | "description"> & {
  operationId: string;
  /** Of the rows in the response. */
  name: string;
  /** The fields of the response besides those of every page, and an example. */
  fields: z.ZodRawShape;
  example: object;
};

/** Adds the questions about a wallet on several networks. */
export const addWalletQuestions = (app: ApiApp, dependencies: Pick<Dependencies, "database" | "shards">): void => {
  const { shards } = dependencies;
  type Values = Partial<NetworkValues>;
  const derive = (values: Values) => ({ chains: findNetworks(shards, values) });
  const validate = (values: Values & ReturnType<typeof derive>) => validateNetworks(shards, values);
  const ofNetworks = { params: walletParams, lists: ["chainId"], derive, validate };
  const ofCheck = {
    ...ofNetworks,
    validate: (values: Values & CheckValues & ReturnType<typeof derive>) => [
      ...validateCheck(values),
      ...validate(values),
    ],
  };

  const add = (
    path: string,
    { operationId, summary, description, request, name, fields, example }: Contract,
    answer: (c: ApiContext) => Promise<Response>,
  ) =>
    addOperation(
      app,
      createRoute({
        method: "get",
        path: `/wallets/{wallet}/${path}`,
        operationId,
        tags: ["wallets"],
        summary,
        description,
        security: OPTIONAL_KEY,
        request,
        responses: describePages(`A page of ${name}.`, z.object({ wallet: address, ...fields, ...pageFields }), {
          ...example,
          ...EXAMPLE_PAGE,
        }),
      }),
      answer,
    );

  const vaults = defineParameters({
    ...ofCheck,
    query: { ...checkQuery, vault: coldWallet().optional(), ...networkQuery },
  });
  add(
    "vaults",
    {
      operationId: "walletVaults",
      summary: "For which wallets may it act?",
      description: `Every cold wallet for which the check is true, or its balance above 0, with the delegations that grant it. ${GRANTS_ORDER}`,
      request: vaults.request,
      name: "vaults",
      fields: { check: z.string(), vaults: z.array(z.object({ chainId: z.int(), vault: address, ...granting })) },
      example: {
        wallet: SAMPLES.hot,
        check: "all",
        vaults: [{ chainId: 1, vault: SAMPLES.vault, ...EXAMPLE_GRANT }],
      },
    },
    (c) => {
      const { vault: other, ...values } = vaults.read(c);
      return answerList(c, dependencies, grants, { ...values, check: chooseCheck(values), other, list: "vaults" });
    },
  );

  const delegates = defineParameters({
    ...ofCheck,
    params: { wallet: walletParams.wallet.openapi({ example: SAMPLES.vault }) },
    query: { ...checkQuery, delegate: hotWallet().optional(), ...networkQuery },
  });
  add(
    "delegates",
    {
      operationId: "walletDelegates",
      summary: "Which wallets may act for it?",
      description: `Every hot wallet for which the check is true, or its balance above 0, with the delegations that grant it. ${GRANTS_ORDER}`,
      request: delegates.request,
      name: "delegates",
      fields: { check: z.string(), delegates: z.array(z.object({ chainId: z.int(), delegate: address, ...granting })) },
      example: {
        wallet: SAMPLES.vault,
        check: "all",
        delegates: [{ chainId: 1, delegate: SAMPLES.hot, ...EXAMPLE_GRANT }],
      },
    },
    (c) => {
      const { delegate: other, ...values } = delegates.read(c);
      return answerList(c, dependencies, grants, { ...values, check: chooseCheck(values), other, list: "delegates" });
    },
  );

  const directionOf = z
    .enum(["incoming", "outgoing", "both"], { error: "must be incoming, outgoing or both" })
    .default("both")
    .openapi({ description: "Incoming: the wallet is the delegate." });
  const delegations = defineParameters({ ...ofNetworks, query: { direction: directionOf, ...networkQuery } });
  add(
    "delegations",
    {
      operationId: "walletDelegations",
      summary: "All delegations of a wallet",
      description:
        "The delegations of both registries, on several networks: by chain id, incoming before outgoing, the oldest first. A delegation to itself is listed once, as incoming.",
      request: delegations.request,
      name: "delegations",
      fields: { delegations: z.array(DelegationSchema.extend({ direction })) },
      example: { wallet: SAMPLES.hot, delegations: [{ direction: "incoming", ...EXAMPLE_DELEGATION }] },
    },
    (c) => answerList(c, dependencies, activeDelegations, { list: "delegations", ...delegations.read(c) }),
  );

  const changes = defineParameters({ ...ofNetworks, query: networkQuery });
  add(
    "history",
    {
      operationId: "walletHistory",
      summary: "All changes of the delegations of a wallet",
      description:
        "Each delegation from or to the wallet that was made, changed in amount or revoked, in both registries, on several networks: the newest first.",
      request: changes.request,
      name: "changes",
      fields: { changes: z.array(ChangeSchema) },
      example: { wallet: SAMPLES.hot, changes: [EXAMPLE_CHANGE] },
    },
    (c) => answerList(c, dependencies, history, { list: "history", ...changes.read(c) }, "changes"),
  );
};
