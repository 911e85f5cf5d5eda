import { z } from "@hono/zod-openapi";
import type { Address } from "viem";
import { CHECKS, type Check, isBalanceCheck } from "../../registry/check-rule.ts";
import { NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";
import { networks, type RegistryVersion } from "../../registry/networks.ts";
import { checksumAddress } from "../checksum-address.ts";
import type { ApiApp } from "../context.ts";
import { type ExplorerCursor, encodePlace, parsePlace } from "../explorer-cursor.ts";
import { showActive, showBlock, showChange, showGrant } from "../explorer-json.ts";
import { showNetworks } from "../explorer-networks.ts";
import { chainId, coldWallet, contract, hotWallet, read, rights, tokenId, upTo, wallet } from "../parameters.ts";
import type { ParameterError } from "../problem.ts";
import { explainCheck } from "../queries/explorer/explain-check.ts";
import { type Direction, listActive } from "../queries/explorer/list-active.ts";
import { readHistory } from "../queries/explorer/read-history.ts";
import { type Found, NEWEST, type Place } from "../queries/explorer/rows.ts";
import { defineParameters } from "../read-parameters.ts";
import { answerHeaders, respondJson } from "../respond.ts";
import type { Shards } from "../shards.ts";
import type { Source } from "../source.ts";
import { addRoute } from "./add-operation.ts";

/** What is asked for at once. */
const LONGEST_PAGE = 50;
const USUAL_PAGE = 25;

const oneOf = <const Value extends string>(values: readonly Value[]) =>
  z.enum(values, { error: `must be ${values.join(" or ")}` });

const limit = upTo(LONGEST_PAGE).default(USUAL_PAGE);

const NOT_OF_THIS_LIST = "is not one that this list gave: start again without it";

const cursor = read(NOT_OF_THIS_LIST, parsePlace).optional();

type Listed = { wallet: Address; chainId: number; cursor?: ExplorerCursor };

/** What the explorer's page asks. docs/explorer-api.md has the answers. */
export const addExplorer = (app: ApiApp, { database, shards }: Pick<Source, "database" | "shards">): void => {
  addRoute(app, "/explorer/networks", (c) => respondJson(c, showNetworks(shards, database.isReachable), NOT_KEPT));

  const activeList = ({ direction, chainId, wallet }: Partial<Listed> & { direction?: Direction }) =>
    `${direction} ${chainId} ${wallet}`;
  const delegations = defineParameters({
    params: { wallet },
    query: { chainId, limit, cursor, direction: oneOf(["in", "out"]) },
    check: (values) => [...checkEither(shards, values), ...checkCursor(values.cursor, activeList(values))],
  });
  addRoute(app, "/explorer/delegations/:wallet", async (c) => {
    const values = delegations.read(c);
    const { wallet, chainId, direction, limit, cursor } = values;
    const question = { schema: schemaOf(shards, chainId), chainId, wallet, direction };
    const found = await listActive(database, question, limit + 1, cursor?.place ?? NEWEST);
    const freshness = shards.requireFresh(chainId, found.freshness);
    const { shown, next } = cut(found, limit, activeList(values), (row) => ({ ...row, ordinal: 0 }));
    const page = {
      chainId,
      wallet: checksumAddress(wallet),
      direction,
      block: showBlock(freshness),
      delegations: shown.map(showActive),
      next,
    };
    return respondJson(c, page, answerHeaders(freshness));
  });

  const historyList = ({ chainId, wallet }: Partial<Listed>) => `history ${chainId} ${wallet}`;
  const history = defineParameters({
    params: { wallet },
    query: { chainId, limit, cursor },
    check: (values) => [...checkEither(shards, values), ...checkCursor(values.cursor, historyList(values))],
  });
  addRoute(app, "/explorer/history/:wallet", async (c) => {
    const values = history.read(c);
    const { wallet, chainId, limit, cursor } = values;
    const question = { schema: schemaOf(shards, chainId), chainId, wallet };
    const found = await readHistory(database, question, limit + 1, cursor?.place ?? NEWEST);
    const freshness = shards.requireFresh(chainId, found.freshness);
    const { shown, next } = cut(found, limit, historyList(values), (change) => change);
    const changes = shown.map((change) => showChange(change, wallet));
    const page = { chainId, wallet: checksumAddress(wallet), block: showBlock(freshness), changes, next };
    return respondJson(c, page, answerHeaders(freshness));
  });

  const explained = defineParameters({
    query: {
      registry: oneOf(["v1", "v2"]),
      type: oneOf([...new Set([...CHECKS.v1, ...CHECKS.v2])]),
      from: coldWallet("vault"),
      to: hotWallet("delegate"),
      contract: contract.optional(),
      tokenId: tokenId.optional(),
      rights,
      chainId,
    },
    synonyms: { from: "vault", to: "delegate" },
    check: (values) => [...(values.registry ? shards.checkChain(values.registry)(values) : []), ...checkScope(values)],
  });
  addRoute(app, "/explorer/explain", async (c) => {
    const values = explained.read(c);
    const { registry, type, from: vault, to: delegate, rights, chainId } = values;
    const { contract = NO_CONTRACT, tokenId = `${NO_TOKEN}` } = values;
    const question = { chainId, vault, delegate, contract, tokenId, rights };
    const found = await explainCheck(database, shards.schemaOf(registry, chainId), registry, type, question);
    const freshness = shards.requireFresh(chainId, found.freshness);
    const explanation = {
      chainId,
      registry,
      type,
      block: showBlock(freshness),
      answer: isBalanceCheck(type) ? found.answer : found.answer === "true",
      grants: found.rows.map(showGrant),
    };
    return respondJson(c, explanation, answerHeaders(freshness));
  });
};

const NOT_KEPT = { "Cache-Control": "no-store" };

/** The registries of a network, as far as it is known. */
const registriesOn = (chainId: number): RegistryVersion[] =>
  (["v1", "v2"] as const).filter((version) => networks.get(chainId)?.[version]);

/** Names a network that is not indexed here, for what is asked of whichever registries it has. */
const checkEither = (shards: Shards, values: { chainId?: number }): ParameterError[] => {
  const [version = "v2"] = values.chainId === undefined ? [] : registriesOn(values.chainId);
  return shards.checkChain(version)(values);
};

/** The schema that has all registries of a chain: half of a wallet's delegations would look like the whole. */
const schemaOf = (shards: Shards, chainId: number): string => {
  const [schema] = registriesOn(chainId).map((version) => shards.schemaOf(version, chainId));
  return schema ?? shards.schemaOf("v2", chainId);
};

const checkCursor = (cursor: ExplorerCursor | undefined, list: string): ParameterError[] =>
  !cursor || cursor.list === list ? [] : [{ parameter: "cursor", message: NOT_OF_THIS_LIST }];

const WITH_CONTRACT: readonly Check[] = ["contract", "token", "erc721", "erc20", "erc1155"];
const WITH_TOKEN: readonly Check[] = ["token", "erc721", "erc1155"];

/** Whether the registry has this check, and what it has to be asked with. */
const checkScope = (values: { registry?: RegistryVersion; type?: Check; contract?: string; tokenId?: string }) => {
  const { registry, type } = values;
  /** Absent, rather than bad, which is said already. */
  const isAbsent = (name: "contract" | "tokenId") => name in values && values[name] === undefined;
  if (registry === undefined || type === undefined) return [];
  const known: readonly Check[] = CHECKS[registry];
  if (!known.includes(type)) return [{ parameter: "type", message: `must be ${known.join(" or ")} in ${registry}` }];
  return [
    ...(isAbsent("contract") && WITH_CONTRACT.includes(type)
      ? [{ parameter: "contract", message: "is required" }]
      : []),
    ...(isAbsent("tokenId") && WITH_TOKEN.includes(type) ? [{ parameter: "tokenId", message: "is required" }] : []),
  ];
};

/** What is shown of a page that one more was read of, which tells whether there is another. */
const cut = <Row>({ rows }: Found<Row>, limit: number, list: string, placeOf: (row: Row) => Place) => {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return { shown, next: rows.length > limit && last ? encodePlace(list, placeOf(last)) : null };
};
