import type { Address, Hex } from "viem";
import { CHECKS, type Check, isBalanceCheck } from "../../registry/check-rule.ts";
import { NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";
import { networks, type RegistryVersion } from "../../registry/networks.ts";
import { answerHeaders, checkChain, JSON_ANSWER, type Source } from "../answering.ts";
import { checksumAddress } from "../checksum-address.ts";
import { type Exchange, type Reply, respond } from "../exchange.ts";
import { type ExplorerCursor, encodePlace, parsePlace } from "../explorer-cursor.ts";
import { showActive, showBlock, showChange, showGrant } from "../explorer-json.ts";
import { showNetworks } from "../explorer-networks.ts";
import { addQuestion } from "../operation.ts";
import { chainId, coldWallet, contract, hotWallet, type Reading, rights, tokenId, wallet } from "../parameters.ts";
import type { ParameterError } from "../problem.ts";
import { explainCheck } from "../queries/explorer/explain-check.ts";
import { type Direction, listActive } from "../queries/explorer/list-active.ts";
import { readHistory } from "../queries/explorer/read-history.ts";
import { type Found, NEWEST, type Place } from "../queries/explorer/rows.ts";
import type { Freshness } from "../queries/freshness.ts";
import type { Shards } from "../shards.ts";
import type { Routes } from "./routes.ts";

/** What is asked for at once. */
const LONGEST_PAGE = 50;
const USUAL_PAGE = 25;

const oneOf = <Value extends string>(values: readonly Value[]): Reading<Value> => ({
  in: "query",
  synonyms: [],
  parse: (text) => values.find((value) => value === text),
  must: `must be ${values.join(" or ")}`,
});

const limit: Reading<number> = {
  in: "query",
  synonyms: [],
  default: USUAL_PAGE,
  parse: (text) => {
    const value = /^\d{1,2}$/.test(text) ? Number(text) : 0;
    return value >= 1 && value <= LONGEST_PAGE ? value : undefined;
  },
  must: `must be a whole number from 1 to ${LONGEST_PAGE}`,
};

const NOT_OF_THIS_LIST = "is not one that this list gave: start again without it";

const cursor: Reading<ExplorerCursor | null> = {
  in: "query",
  synonyms: [],
  default: null,
  isSingle: true,
  parse: parsePlace,
  must: NOT_OF_THIS_LIST,
};

const paging = { chainId, limit, cursor };

type Paging = { wallet: Address; chainId: number; limit: number; cursor: ExplorerCursor | null };

/** What the explorer's page asks. docs/explorer-api.md has the answers. */
export const addExplorer = (routes: Routes, source: Omit<Source, "log" | "batches">): void => {
  const { database, shards } = source;

  routes.get("/explorer/networks", (exchange) => answer(exchange, showNetworks(shards, database.isReachable)));

  const activeList = ({ direction, chainId, wallet }: Partial<Paging> & { direction?: Direction }) =>
    `${direction} ${chainId} ${wallet}`;
  addQuestion<Paging & { direction: Direction }>(
    routes,
    {
      path: "/explorer/delegations/{wallet}",
      parameters: { wallet, ...paging, direction: oneOf(["in", "out"]) },
      check: (values) => [...checkEither(shards, values), ...checkCursor(values.cursor, activeList(values))],
    },
    async (values, exchange) => {
      const { wallet, chainId, direction, limit, cursor } = values;
      const schema = schemaOf(shards, chainId);
      const question = { schema, chainId, wallet, direction };
      const found = await listActive(database, question, limit + 1, cursor?.place ?? NEWEST);
      const freshness = shards.requireFresh(chainId, found.freshness);
      const { shown, next } = cut(found, limit, activeList(values), (row) => ({ ...row, ordinal: "0" }));
      const page = {
        chainId,
        wallet: checksumAddress(wallet),
        direction,
        block: showBlock(freshness),
        delegations: shown.map(showActive),
        next,
      };
      return answer(exchange, page, freshness);
    },
  );

  const historyList = ({ chainId, wallet }: Partial<Paging>) => `history ${chainId} ${wallet}`;
  addQuestion<Paging>(
    routes,
    {
      path: "/explorer/history/{wallet}",
      parameters: { wallet, ...paging },
      check: (values) => [...checkEither(shards, values), ...checkCursor(values.cursor, historyList(values))],
    },
    async (values, exchange) => {
      const { wallet, chainId, limit, cursor } = values;
      const question = { schema: schemaOf(shards, chainId), chainId, wallet };
      const found = await readHistory(database, question, limit + 1, cursor?.place ?? NEWEST);
      const freshness = shards.requireFresh(chainId, found.freshness);
      const { shown, next } = cut(found, limit, historyList(values), (change) => change);
      const changes = shown.map((change) => showChange(change, wallet));
      const page = { chainId, wallet: checksumAddress(wallet), block: showBlock(freshness), changes, next };
      return answer(exchange, page, freshness);
    },
  );

  addQuestion<Explain>(
    routes,
    {
      path: "/explorer/explain",
      parameters: {
        registry: oneOf(["v1", "v2"]),
        type: oneOf([...new Set([...CHECKS.v1, ...CHECKS.v2])]),
        from: coldWallet({ synonym: "vault" }),
        to: hotWallet({ synonym: "delegate" }),
        contract: { ...contract, default: null },
        tokenId: { ...tokenId, default: null },
        rights,
        chainId,
      },
      check: (values) => [
        ...(values.registry ? checkChain(shards, values.registry)(values) : []),
        ...checkScope(values),
      ],
    },
    async ({ registry, type, from: vault, to: delegate, contract, tokenId, rights, chainId }, exchange) => {
      const question = {
        chainId,
        vault,
        delegate,
        contract: contract ?? NO_CONTRACT,
        tokenId: tokenId ?? `${NO_TOKEN}`,
        rights,
      };
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
      return answer(exchange, explanation, freshness);
    },
  );
};

type Explain = {
  registry: RegistryVersion;
  type: Check;
  from: Address;
  to: Address;
  contract: Address | null;
  tokenId: string | null;
  rights: Hex;
  chainId: number;
};

const answer = (exchange: Exchange, content: unknown, freshness?: Freshness): Reply =>
  respond(exchange, 200, JSON.stringify(content), freshness ? answerHeaders(freshness) : JSON_ANSWER);

/** The registries of a network, as far as it is known. */
const registriesOn = (chainId: number): RegistryVersion[] =>
  (["v1", "v2"] as const).filter((version) => networks.get(chainId)?.[version]);

/** Names a network that is not indexed here, for what is asked of whichever registries it has. */
const checkEither = (shards: Shards, values: { chainId?: number }): ParameterError[] => {
  const [version = "v2"] = values.chainId === undefined ? [] : registriesOn(values.chainId);
  return checkChain(shards, version)(values);
};

/** The schema that has all registries of a chain: half of a wallet's delegations would look like the whole. */
const schemaOf = (shards: Shards, chainId: number): string => {
  const [schema] = registriesOn(chainId).map((version) => shards.schemaOf(version, chainId));
  return schema ?? shards.schemaOf("v2", chainId);
};

const checkCursor = (cursor: ExplorerCursor | null | undefined, list: string): ParameterError[] =>
  !cursor || cursor.list === list ? [] : [{ parameter: "cursor", message: NOT_OF_THIS_LIST }];

const WITH_CONTRACT: readonly Check[] = ["contract", "token", "erc721", "erc20", "erc1155"];
const WITH_TOKEN: readonly Check[] = ["token", "erc721", "erc1155"];

/** Whether the registry has this check, and what it has to be asked with. */
const checkScope = ({ registry, type, contract, tokenId }: Partial<Explain>): ParameterError[] => {
  if (registry === undefined || type === undefined) return [];
  const known: readonly Check[] = CHECKS[registry];
  if (!known.includes(type)) return [{ parameter: "type", message: `must be ${known.join(" or ")} in ${registry}` }];
  return [
    ...(contract === null && WITH_CONTRACT.includes(type) ? [{ parameter: "contract", message: "is required" }] : []),
    ...(tokenId === null && WITH_TOKEN.includes(type) ? [{ parameter: "tokenId", message: "is required" }] : []),
  ];
};

/** What is shown of a page that one more was read of, which tells whether there is another. */
const cut = <Row>({ rows }: Found<Row>, limit: number, list: string, placeOf: (row: Row) => Place) => {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return { shown, next: rows.length > limit && last ? encodePlace(list, placeOf(last)) : null };
};
