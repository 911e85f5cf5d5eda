import { readBlock, readBlockHeaders } from "./block.ts";
import type { components, operations } from "./openapi.ts";
import {
  type Address,
  type AtBlock,
  type Hex,
  type Integer,
  type RegistryVersion,
  type Rights,
  toDigits,
  toPathAddress,
} from "./questions.ts";
import { fromProblem, notAnAnswer, type Problem } from "./registry-error.ts";
import type { Transport } from "./transport.ts";

type Json = components["schemas"];

/** JSON with exact types: addresses, hashes, and whole numbers as bigint. */
export type Exact<Row> = {
  [Field in keyof Row]: Field extends "vault" | "delegate" | "from" | "to" | "rights" | "transactionHash"
    ? Hex
    : Field extends "contract"
      ? Hex | null
      : Field extends "tokenId" | "amount"
        ? bigint | null
        : Field extends "blockNumber" | "blockTimestamp"
          ? bigint
          : Row[Field];
};

export type DelegationV1 = Required<Exact<Json["DelegationV1"]>>;
export type DelegationV2 = Required<Exact<Json["DelegationV2"]>>;
export type WalletDelegation = Exact<Json["WalletDelegation"]> & { direction: "incoming" | "outgoing" };
export type WalletChange = Exact<Json["WalletChange"]>;
/** A wallet for which a check is true, and the delegations that grant it. */
type Granted = {
  chainId: number;
  /** The balance, for erc20 and erc1155; 2^256-1 under a broader delegation. */
  amount: bigint | null;
  delegations: Exact<Json["WalletDelegation"]>[];
};
export type Vault = Granted & { vault: Address };
export type Delegate = Granted & { delegate: Address };

export type ListBlock = {
  number: bigint | null;
  timestamp: bigint | null;
  final: boolean;
};

/** A page of a list over several networks. */
export type Page<Row> = {
  rows: Row[];
  /** By chain id. */
  blocks: Record<string, ListBlock>;
  /** With `partial`: the networks that it is without. Never take them for "none". */
  unanswered: { chainId: number | null; problem: Problem }[];
};

/** A page from which a list can go on later. */
export type WalletPage<Row> = Page<Row> & {
  /** The `cursor` of the next page; null on the last one. */
  next: string | null;
};

/** A list, row by row or page by page. It sends no request before the first row is read. */
export type List<Row, OfPage extends Page<Row> = Page<Row>> = AsyncIterable<Row> & {
  pages: () => AsyncIterable<OfPage>;
  /** All rows. */
  all: () => Promise<Row[]>;
};

export type WalletList<Row> = List<Row, WalletPage<Row>>;

export type WalletOptions = AtBlock & {
  /** The networks; all by default. */
  chainId?: number | readonly number[];
  registry?: RegistryVersion | "both";
  /** The state at a time, in seconds since 1970, for several networks. */
  timestamp?: Integer;
  /** Goes without networks that cannot be answered for. Only pages() tells which: rows one by one throw then. */
  partial?: boolean;
  /** Rows per request; 1,000 by default. */
  limit?: number;
  /** Starts at a page: its cursor is `next` of the page before it. */
  cursor?: string;
  signal?: AbortSignal;
};

export type ScopeOptions = {
  /** By default `all`, with a contract `contract`, with a token id `token`: a token of any standard. */
  check?: NonNullable<NonNullable<operations["walletVaults"]["parameters"]["query"]>["check"]>;
  contract?: Address;
  tokenId?: Integer;
  rights?: Rights;
};

type Query = Record<string, string | number | bigint | boolean | readonly number[] | undefined>;

export const buildQuery = (query: Query): string => {
  if (Array.isArray(query.chainId) && query.chainId.length === 0) {
    throw new RangeError("An empty list of networks would ask about all of them: leave out chainId for that.");
  }
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined) parameters.append(name, typeof one === "number" ? toDigits(one) : String(one));
    }
  }
  return `${parameters}`;
};

/** Whole numbers: those that JavaScript would round are texts. */
const INTEGERS: Readonly<Record<string, string>> = {
  tokenId: "string",
  amount: "string",
  blockNumber: "number",
  blockTimestamp: "number",
};

const toInteger = (name: string, value: unknown): bigint => {
  if (typeof value !== INTEGERS[name] || !/^\d+$/.test(String(value))) throw notAnAnswer({ [name]: value });
  return BigInt(value as string | number);
};

/** Converts the whole numbers of a row. */
export const toExact = (row: unknown): unknown => {
  if (Array.isArray(row)) return row.map(toExact);
  if (typeof row !== "object" || row === null) return row;
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      name in INTEGERS && value !== null ? toInteger(name, value) : toExact(value),
    ]),
  );
};

/** A list of pages. */
const createList = <Row, OfPage extends Page<Row>>(pages: () => AsyncIterable<OfPage>): List<Row, OfPage> => {
  const iterate = async function* (): AsyncGenerator<Row> {
    for await (const { rows, unanswered } of pages()) {
      yield* rows;
      // Rows one by one cannot tell which networks they are without.
      const [missing] = unanswered;
      if (missing) throw fromProblem(missing.problem);
    }
  };
  return {
    [Symbol.asyncIterator]: iterate,
    pages,
    all: async () => {
      const rows: Row[] = [];
      for await (const row of iterate()) rows.push(row);
      return rows;
    },
  };
};

/** Lists a wallet's rows on several networks. The field of a page has the rows. */
export const listWallet = <Row>(
  transport: Transport,
  { wallet, name, field }: { wallet: Address; name: string; field: string },
  { signal, limit = 1_000, cursor: start, ...query }: WalletOptions & ScopeOptions,
): WalletList<Row> =>
  createList(async function* () {
    const path = `/wallets/${toPathAddress(wallet)}/${name}`;
    for (let cursor = start; ; ) {
      const { json } = await transport.send({ path: `${path}?${buildQuery({ ...query, limit, cursor })}`, signal });
      const page = (json ?? {}) as Partial<WalletPageJson> & Record<string, unknown>;
      const { [field]: rows, blocks, unanswered, next } = page;
      if (!Array.isArray(rows) || !blocks || !Array.isArray(unanswered) || next === undefined) throw notAnAnswer(json);
      yield { rows: toExact(rows) as Row[], blocks: toBlocks(query, blocks), unanswered, next };
      if (next === null) return;
      cursor = next;
    }
  });

type WalletPageJson = {
  blocks: Record<string, { number: number | null; timestamp: number | null; final: boolean }>;
  unanswered: { chainId: number | null; problem: Problem }[];
  next: string | null;
};

const toBlocks = (at: AtBlock, blocks: WalletPageJson["blocks"]): Record<string, ListBlock> =>
  Object.fromEntries(
    Object.entries(blocks).map(([chainId, { number, timestamp, final }]) => [
      chainId,
      {
        // Nothing was registered at that time.
        ...(number === null && at.block === undefined ? { number, final } : readBlock(at, number, final)),
        timestamp: timestamp === null ? null : BigInt(timestamp),
      },
    ]),
  );

export type RegistryListOptions = AtBlock & {
  /** 1, Ethereum, by default. */
  chainId?: number;
  /** Rows per request; 1,000 by default. */
  limit?: number;
  signal?: AbortSignal;
};

/** Lists a wallet's delegations in one registry on one network, with details. */
export const listRegistry = <Row>(
  transport: Transport,
  version: RegistryVersion,
  wallet: Address,
  { signal, limit = 1_000, chainId = 1, ...at }: RegistryListOptions,
): List<Row> =>
  createList(async function* () {
    const query = buildQuery({ chainId, ...at, limit, details: true, numbers: "string" });
    for (let path: string | null = `/registry/${version}/${toPathAddress(wallet)}?${query}`; path; ) {
      const { json, headers } = await transport.send({ path, signal });
      if (!Array.isArray(json)) throw notAnAnswer(json);
      const block = { ...readBlockHeaders(at, headers), timestamp: null };
      yield { rows: toExact(json) as Row[], blocks: { [chainId]: block }, unanswered: [] };
      path = readNext(headers.get("Link"));
    }
  });

/** The path of the next page; null without one. */
const readNext = (link: string | null): string | null => {
  if (link === null) return null;
  // The key goes nowhere else.
  const [, next] = /^<(\/registry\/[^>]+)>; rel="next"$/.exec(link) ?? [];
  if (!next) throw notAnAnswer({ link });
  return next;
};
