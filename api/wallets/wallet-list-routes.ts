import { createRoute, z } from "@hono/zod-openapi";
import type { Address } from "viem";
import type { ApiApp, ApiContext } from "../context.ts";
import { addOperation } from "../contract/add-operation.ts";
import { defineParameters } from "../contract/define-parameters.ts";
import { nameWalletList } from "../contract/paging.ts";
import { SAMPLES } from "../contract/parameters.ts";
import { describePages, OPTIONAL_KEY } from "../contract/responses.ts";
import { checksumAddress } from "../delegations/checksum-address.ts";
import type { Dependencies } from "../delegations/dependencies.ts";
import { INCOMING, OUTGOING } from "../delegations/list-directions.ts";
import { askNetworks } from "./ask-networks.ts";
import { listActive } from "./list-active.ts";
import { readHistory } from "./read-history.ts";
import { showDelegation, showWalletChange } from "./wallet-json.ts";
import { countRowsToRead, cutPage, type Order, respondPage } from "./wallet-page.ts";
import {
  type NetworkValues,
  networkQuery,
  validateCursor,
  validateNetworks,
  versionsOf,
  walletParams,
} from "./wallet-parameters.ts";
import {
  address,
  ChangeSchema,
  DelegationSchema,
  direction,
  EXAMPLE_CHANGE,
  EXAMPLE_DELEGATION,
  EXAMPLE_PAGE,
  pageFields,
} from "./wallet-schemas.ts";

type ListValues = NetworkValues & { wallet: Address };
type ActiveValues = ListValues & { direction: "incoming" | "outgoing" | "both" };

/** By chain, direction, block and log index. */
const ACTIVE_ORDER: Order = ["ascending", "ascending", "ascending", "ascending"];
/** By time, chain, block, log index and ordinal. */
const HISTORY_ORDER: Order = ["descending", "ascending", "descending", "descending", "descending"];

/** Names the list of a question, for its cursors. */
const nameQuestion = (list: string, { limit, cursor, partial, minBlock, ...question }: ListValues) =>
  nameWalletList({ list, ...question });

type WalletDependencies = Pick<Dependencies, "database" | "shards">;

/** Adds the lists of all delegations of a wallet, and of all their changes. */
export const addWalletLists = (app: ApiApp, dependencies: WalletDependencies): void => {
  const { shards } = dependencies;
  const directionOf = z
    .enum(["incoming", "outgoing", "both"], { error: "must be incoming, outgoing or both" })
    .default("both")
    .openapi({ description: "Incoming: the wallet is the delegate." });
  const delegations = defineParameters({
    params: walletParams,
    query: { direction: directionOf, ...networkQuery },
    lists: ["chainId"],
    validate: (values) => validateNetworks(shards, values),
    validateAll: (values) => validateCursor(values.cursor, nameQuestion("delegations", values)),
  });
  addOperation(
    app,
    createRoute({
      method: "get",
      path: "/wallets/{wallet}/delegations",
      operationId: "walletDelegations",
      tags: ["wallets"],
      summary: "All delegations of a wallet",
      description:
        "The delegations of both registries, on several networks: by chain id, incoming before outgoing, the oldest first. A delegation to itself is listed once, as incoming.",
      security: OPTIONAL_KEY,
      request: delegations.request,
      responses: describePages(
        "A page of delegations.",
        z.object({ wallet: address, delegations: z.array(DelegationSchema.extend({ direction })), ...pageFields }),
        {
          wallet: SAMPLES.hot,
          delegations: [{ direction: "incoming", ...EXAMPLE_DELEGATION }],
          ...EXAMPLE_PAGE,
        },
      ),
    }),
    (c) => answerDelegations(c, dependencies, delegations.read(c)),
  );

  const history = defineParameters({
    params: walletParams,
    query: networkQuery,
    lists: ["chainId"],
    validate: (values) => validateNetworks(shards, values),
    validateAll: (values) => validateCursor(values.cursor, nameQuestion("history", values)),
  });
  addOperation(
    app,
    createRoute({
      method: "get",
      path: "/wallets/{wallet}/history",
      operationId: "walletHistory",
      tags: ["wallets"],
      summary: "All changes of the delegations of a wallet",
      description:
        "Each delegation from or to the wallet that was made, changed in amount or revoked, in both registries, on several networks: the newest first.",
      security: OPTIONAL_KEY,
      request: history.request,
      responses: describePages(
        "A page of changes.",
        z.object({ wallet: address, changes: z.array(ChangeSchema), ...pageFields }),
        { wallet: SAMPLES.hot, changes: [EXAMPLE_CHANGE], ...EXAMPLE_PAGE },
      ),
    }),
    (c) => answerHistory(c, dependencies, history.read(c)),
  );
};

const isPast = ({ block, timestamp }: ListValues) => (block ?? timestamp) !== undefined;

const answerDelegations = async (
  c: ApiContext,
  { database, shards }: WalletDependencies,
  values: ActiveValues,
): Promise<Response> => {
  const { wallet, registry, direction, limit, cursor, timestamp } = values;
  const directions =
    direction === "both"
      ? ([INCOMING, OUTGOING] as const)
      : ([direction === "incoming" ? INCOMING : OUTGOING] as const);
  // At a past block, changes of delegations that were revoked by then are read too.
  const rows = isPast(values) ? countRowsToRead(limit) : limit + 1;
  const after = cursor?.position;
  const question = { wallet, versions: versionsOf(registry), directions, timestamp };
  const answer = await askNetworks(shards, values, listActive(database, question, { after, rows }));
  const found = answer.rows.map((row) =>
    Object.assign(row, {
      position: [row.chainId, row.direction, row.blockNumber, row.logIndex],
      isListed: row.isListed && row.chainId in answer.blocks,
      isLastRead: row.isLastRead || Number(row.number) === rows,
    }),
  );
  const { page: listed, end } = cutPage(found, limit, ACTIVE_ORDER);
  return respondPage(c, values, {
    list: nameQuestion("delegations", values),
    content: { wallet: checksumAddress(wallet) },
    name: "delegations",
    rows: listed,
    show: (row) => {
      const [vault, delegate] = row.direction === INCOMING ? [row.other, wallet] : [wallet, row.other];
      return {
        direction: row.direction === INCOMING ? "incoming" : "outgoing",
        ...showDelegation({ ...row, vault, delegate }),
      };
    },
    end: end?.position ?? null,
    answer,
  });
};

const answerHistory = async (
  c: ApiContext,
  { database, shards }: WalletDependencies,
  values: ListValues,
): Promise<Response> => {
  const { wallet, registry, limit, cursor, timestamp } = values;
  // Changes of the other registry are read too: strangers can add any number.
  const rows = registry === "both" ? limit + 1 : countRowsToRead(limit);
  const after = cursor?.position;
  const answer = await askNetworks(
    shards,
    values,
    readHistory(database, { wallet, registry, timestamp }, { after, rows }),
  );
  const found = answer.rows.map((row) =>
    Object.assign(row, {
      position: [row.blockTimestamp, row.chainId, row.blockNumber, row.logIndex, row.ordinal],
      isListed: row.isListed && row.chainId in answer.blocks,
      isLastRead: Number(row.number) === rows,
    }),
  );
  const { page: listed, end } = cutPage(found, limit, HISTORY_ORDER);
  return respondPage(c, values, {
    list: nameQuestion("history", values),
    content: { wallet: checksumAddress(wallet) },
    name: "changes",
    rows: listed,
    show: (change) => showWalletChange(change, wallet),
    end: end?.position ?? null,
    answer,
  });
};
