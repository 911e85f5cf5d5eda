import { z } from "@hono/zod-openapi";
import type { Address } from "viem";
import { CHECKS, type Check, isBalanceCheck } from "../../registry/check-rule.ts";
import { NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";
import { networks, type RegistryVersion } from "../../registry/networks.ts";
import type { ApiApp } from "../context.ts";
import { addRoute } from "../contract/add-operation.ts";
import { defineParameters } from "../contract/define-parameters.ts";
import {
  chainId,
  coldWallet,
  contract,
  hotWallet,
  integerUpTo,
  parsedText,
  rights,
  tokenId,
  wallet,
} from "../contract/parameters.ts";
import { checksumAddress } from "../delegations/checksum-address.ts";
import type { Dependencies } from "../delegations/dependencies.ts";
import type { ParameterError } from "../problem.ts";
import { answerHeaders, respondJson } from "../respond.ts";
import type { Shards } from "../shards/shards.ts";
import { explainCheck } from "./explain-check.ts";
import { type ExplorerCursor, encodeExplorerCursor, parseExplorerCursor } from "./explorer-cursor.ts";
import { showActive, showBlock, showChange, showGrant } from "./explorer-json.ts";
import { showNetworks } from "./explorer-networks.ts";
import { type ExplorerPosition, type ExplorerResult, NEWEST } from "./explorer-rows.ts";
import { type Direction, listActive } from "./list-active.ts";
import { readHistory } from "./read-history.ts";

const MAX_PAGE_SIZE = 50;
const DEFAULT_PAGE_SIZE = 25;

const oneOf = <const Value extends string>(values: readonly Value[]) =>
  z.enum(values, { error: `must be ${values.join(" or ")}` });

const limit = integerUpTo(MAX_PAGE_SIZE).default(DEFAULT_PAGE_SIZE);

const WRONG_LIST = "is not from this list: start again without it";

const cursor = parsedText(WRONG_LIST, parseExplorerCursor).optional();

const NO_STORE = { "Cache-Control": "no-store" };

type ExplorerDependencies = Pick<Dependencies, "database" | "shards">;

/** Adds the operations of the explorer's page. docs/explorer-api.md documents them. */
export const addExplorer = (app: ApiApp, dependencies: ExplorerDependencies): void => {
  const { database, shards } = dependencies;
  addRoute(app, "/explorer/networks", (c) => respondJson(c, showNetworks(shards, database.isReachable), NO_STORE));
  addActive(app, dependencies);
  addHistory(app, dependencies);
  addExplain(app, dependencies);
};

type ListValues = { wallet: Address; chainId: number };

const addActive = (app: ApiApp, { database, shards }: ExplorerDependencies): void => {
  const nameList = ({ direction, chainId, wallet }: Partial<ListValues> & { direction?: Direction }) =>
    `${direction} ${chainId} ${wallet}`;
  const parameters = defineParameters({
    params: { wallet },
    query: { chainId, limit, cursor, direction: oneOf(["in", "out"]) },
    validate: (values) => [...validateNetwork(shards, values), ...validateCursor(values.cursor, nameList(values))],
  });
  addRoute(app, "/explorer/delegations/:wallet", async (c) => {
    const values = parameters.read(c);
    const { wallet, chainId, direction, limit, cursor } = values;
    const question = { schema: findSchema(shards, chainId), chainId, wallet, direction };
    const result = await listActive(database, question, limit + 1, cursor?.position ?? NEWEST);
    const freshness = shards.requireFresh(chainId, result.freshness);
    const { rows, next } = cutPage(result, limit, nameList(values), (row) => ({ ...row, ordinal: 0 }));
    const page = {
      chainId,
      wallet: checksumAddress(wallet),
      direction,
      block: showBlock(freshness),
      delegations: rows.map(showActive),
      next,
    };
    return respondJson(c, page, answerHeaders(freshness));
  });
};

const addHistory = (app: ApiApp, { database, shards }: ExplorerDependencies): void => {
  const nameList = ({ chainId, wallet }: Partial<ListValues>) => `history ${chainId} ${wallet}`;
  const parameters = defineParameters({
    params: { wallet },
    query: { chainId, limit, cursor },
    validate: (values) => [...validateNetwork(shards, values), ...validateCursor(values.cursor, nameList(values))],
  });
  addRoute(app, "/explorer/history/:wallet", async (c) => {
    const values = parameters.read(c);
    const { wallet, chainId, limit, cursor } = values;
    const question = { schema: findSchema(shards, chainId), chainId, wallet };
    const result = await readHistory(database, question, limit + 1, cursor?.position ?? NEWEST);
    const freshness = shards.requireFresh(chainId, result.freshness);
    const { rows, next } = cutPage(result, limit, nameList(values), (change) => change);
    const changes = rows.map((change) => showChange(change, wallet));
    const page = { chainId, wallet: checksumAddress(wallet), block: showBlock(freshness), changes, next };
    return respondJson(c, page, answerHeaders(freshness));
  });
};

const addExplain = (app: ApiApp, { database, shards }: ExplorerDependencies): void => {
  const parameters = defineParameters({
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
    validate: (values) => [
      ...(values.registry ? shards.validateChain(values.registry)(values) : []),
      ...validateScope(values),
    ],
  });
  addRoute(app, "/explorer/explain", async (c) => {
    const values = parameters.read(c);
    const { registry, type, from: vault, to: delegate, rights, chainId } = values;
    const { contract = NO_CONTRACT, tokenId = `${NO_TOKEN}` } = values;
    const question = { chainId, vault, delegate, contract, tokenId, rights };
    const kind = { schema: shards.findSchema(registry, chainId), version: registry, check: type };
    const result = await explainCheck(database, kind, question);
    const freshness = shards.requireFresh(chainId, result.freshness);
    const explanation = {
      chainId,
      registry,
      type,
      block: showBlock(freshness),
      answer: isBalanceCheck(type) ? result.answer : result.answer === "true",
      grants: result.rows.map(showGrant),
    };
    return respondJson(c, explanation, answerHeaders(freshness));
  });
};

/** Lists the registries on a network; none on an unknown one. */
const findRegistries = (chainId: number): RegistryVersion[] =>
  (["v1", "v2"] as const).filter((version) => networks.get(chainId)?.[version]);

/** Reports a network that is not indexed here, for operations over all its registries. */
const validateNetwork = (shards: Shards, values: { chainId?: number }): ParameterError[] => {
  const [version = "v2"] = values.chainId === undefined ? [] : findRegistries(values.chainId);
  return shards.validateChain(version)(values);
};

/** Finds the schema with all registries of a chain: with only one of them, a wallet's list would look complete. */
const findSchema = (shards: Shards, chainId: number): string => {
  const [schema] = findRegistries(chainId).map((version) => shards.findSchema(version, chainId));
  return schema ?? shards.findSchema("v2", chainId);
};

const validateCursor = (cursor: ExplorerCursor | undefined, list: string): ParameterError[] =>
  !cursor || cursor.list === list ? [] : [{ parameter: "cursor", message: WRONG_LIST }];

const WITH_CONTRACT: readonly Check[] = ["contract", "token", "erc721", "erc20", "erc1155"];
const WITH_TOKEN: readonly Check[] = ["token", "erc721", "erc1155"];

/** Reports a check that the registry does not have, and parameters that the check lacks. */
const validateScope = (values: { registry?: RegistryVersion; type?: Check; contract?: string; tokenId?: string }) => {
  const { registry, type } = values;
  /** A key without a value is an absent parameter. An invalid one has no key, and is reported already. */
  const isAbsent = (name: "contract" | "tokenId") => name in values && values[name] === undefined;
  if (registry === undefined || type === undefined) return [];
  const checks: readonly Check[] = CHECKS[registry];
  if (!checks.includes(type)) return [{ parameter: "type", message: `must be ${checks.join(" or ")} in ${registry}` }];
  return [
    ...(isAbsent("contract") && WITH_CONTRACT.includes(type)
      ? [{ parameter: "contract", message: "is required" }]
      : []),
    ...(isAbsent("tokenId") && WITH_TOKEN.includes(type) ? [{ parameter: "tokenId", message: "is required" }] : []),
  ];
};

/** Cuts the extra row, which tells if there is a next page. */
const cutPage = <Row>(
  result: ExplorerResult<Row>,
  limit: number,
  list: string,
  readPosition: (row: Row) => ExplorerPosition,
) => {
  const rows = result.rows.slice(0, limit);
  const last = rows.at(-1);
  return { rows, next: result.rows.length > limit && last ? encodeExplorerCursor(list, readPosition(last)) : null };
};
