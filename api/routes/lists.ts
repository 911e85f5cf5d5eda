import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import { answerHeaders, checkChain, type Source } from "../answering.ts";
import { type Cursor, encodeCursor, isCursorOf } from "../cursor.ts";
import { type Rendering, renderDelegations } from "../delegation-json.ts";
import { type Exchange, headerLines, type Reply, respond } from "../exchange.ts";
import { streamList } from "../list-stream.ts";
import { addOperation } from "../operation.ts";
import { chainId, cursor, details, limit, MAX_LIMIT, numbers, SAMPLES, wallet } from "../parameters.ts";
import type { ParameterError } from "../problem.ts";
import { type ListQuestion, openList, readPage, ShortLists } from "../queries/list-delegations.ts";
import { z } from "../zod.ts";
import { answers, LINK } from "./responses.ts";
import type { Routes } from "./routes.ts";

const address = z.string().openapi({ description: "EIP-55 checksummed." });
const contract = address.nullable().openapi({ description: "null: not limited to a contract." });
const tokenId = z
  .union([z.bigint().openapi({ type: "integer", minimum: 0 }), z.string()])
  .nullable()
  .openapi({ description: "null: not limited to a token." });
const type = z.enum(["NONE", "ALL", "CONTRACT", "TOKEN"]);

const event = {
  direction: z.enum(["incoming", "outgoing"]).optional(),
  chainId: z.int().optional(),
};
const activation = {
  blockNumber: z.int().optional(),
  blockTimestamp: z.int().optional().openapi({ description: "Seconds since 1970." }),
  transactionHash: z.string().optional(),
};

const SCHEMAS = {
  v1: z
    .object({
      type,
      delegate: address.openapi({ description: "The hot wallet, which acts for the vault." }),
      vault: address.openapi({ description: "The cold wallet, which issued the delegation." }),
      contract,
      tokenId,
      ...event,
      ...activation,
    })
    .openapi("DelegationV1"),
  v2: z
    .object({
      type,
      from: address.openapi({ description: "The cold wallet, which issued the delegation." }),
      to: address.openapi({ description: "The hot wallet, which acts for it." }),
      contract,
      tokenId,
      ...event,
      rights: z.string().optional().openapi({ description: "bytes32; zero is full rights." }),
      amount: tokenId.optional().openapi({ description: "The delegated balance, for ERC20 and ERC1155." }),
      tokenStandard: z.enum(["ERC721", "ERC20", "ERC1155"]).nullable().optional(),
      ...activation,
    })
    .openapi("DelegationV2"),
};

const { vault, guest, nft, coin } = SAMPLES;
const EXAMPLES = {
  v1: [{ type: "TOKEN", delegate: guest, vault, contract: nft, tokenId: 8520 }],
  v2: [
    { type: "TOKEN", from: vault, to: guest, contract: nft, tokenId: 8520 },
    { type: "TOKEN", from: vault, to: guest, contract: coin, tokenId: null },
    { type: "TOKEN", from: vault, to: guest, contract: nft, tokenId: 7 },
  ],
};

/** The lists of a wallet's delegations, v1 and v2. */
export const addLists = (routes: Routes, source: Source): void => {
  const shortLists = new ShortLists(source.database, source.batches.lists);
  for (const version of ["v1", "v2"] as const) {
    addOperation(
      routes,
      {
        path: `/registry/${version}/{wallet}`,
        operationId: `${version}Delegations`,
        tag: version,
        takesKey: version === "v2",
        summary: "All delegations of a wallet",
        description:
          "The incoming delegations of a wallet, then its outgoing ones, each oldest first. A delegation to itself is listed once.",
        parameters: { wallet, chainId, details, limit, cursor, numbers },
        check: (values) => [...checkChain(source.shards, version)(values), ...checkCursor(version, values)],
        responses: answers("The delegations; [] if there are none.", z.array(SCHEMAS[version]), EXAMPLES[version], {
          headers: LINK,
          takesKey: version === "v2",
        }),
      },
      (values, exchange) => answerList(source, shortLists, version, values, exchange),
    );
  }
};

type ListValues = {
  wallet: Address;
  chainId: number;
  details: boolean;
  limit: number | null;
  cursor: Cursor | null;
  numbers: "number" | "string";
};

const checkCursor = (version: RegistryVersion, values: Partial<ListValues>): ParameterError[] => {
  const { cursor, limit, wallet, chainId } = values;
  if (cursor === null || cursor === undefined) return [];
  if (limit === null) return [{ parameter: "cursor", message: "needs limit" }];
  if (wallet === undefined || chainId === undefined) return [];
  return isCursorOf(cursor, { version, chainId, wallet })
    ? []
    : [{ parameter: "cursor", message: "is not one that this list gave: start again without it" }];
};

const answerList = async (
  source: Source,
  shortLists: ShortLists,
  version: RegistryVersion,
  { wallet, chainId, details, limit, cursor, numbers }: ListValues,
  exchange: Exchange,
): Promise<Reply> => {
  const { database, shards } = source;
  const schema = shards.schemaOf(version, chainId);
  const question = { schema, version, chainId, wallet, hasDetails: details };
  const rendering = { version, chainId, wallet, numbers };

  // Nearly all lists are short.
  const short = limit === null ? await shortLists.read(question) : null;
  if (short) {
    const headers = answerHeaders(shards.requireFresh(chainId, short.freshness));
    return respond(exchange, 200, `[${renderDelegations(short.delegations, rendering)}]`, headers);
  }

  // One more than is sent tells whether there are more.
  const size = limit ?? MAX_LIMIT;
  const page = await readPage(database, question, size + 1, cursor?.position);
  const headers = answerHeaders(shards.requireFresh(chainId, page.freshness));
  const isWhole = page.delegations.length <= size;

  if (!isWhole && limit === null) {
    // A HEAD has nothing to stream.
    if (exchange.method === "HEAD") return respond(exchange, 200, null, headers);
    return answerLongList(source, question, rendering, exchange);
  }
  const shown = page.delegations.slice(0, size);
  const last = shown.at(-1);
  const more = last && !isWhole ? `<${nextPage(exchange.url, encodeCursor(last, question))}>; rel="next"` : null;
  const link = more === null ? "" : headerLines({ Link: more });
  return respond(exchange, 200, `[${renderDelegations(shown, rendering)}]`, `${headers}${link}`);
};

/** A list that is too long to be read at once. Its own statement says at which block it is true. */
const answerLongList = async (
  { database, shards, log }: Source,
  question: ListQuestion,
  rendering: Rendering,
  exchange: Exchange,
): Promise<Reply> => {
  const list = await openList(database, question);
  try {
    const headers = answerHeaders(shards.requireFresh(question.chainId, list.freshness));
    const { outgoing } = exchange;
    // Of whoever has left by now, nothing would ever say that the list is not needed any more.
    if (outgoing.destroyed) {
      await list.close();
      return respond(exchange, 200, null, headers);
    }
    const stream = streamList(list, rendering, (reason) => log.warn({ err: reason }, "A long list broke off"));
    return respond(exchange, 200, stream, headers);
  } catch (error) {
    await list.close();
    throw error;
  }
};

/** The same request with another cursor, without the host, which a proxy may know better. */
const nextPage = (requestUrl: string, cursor: string): string => {
  const { pathname, searchParams } = new URL(requestUrl, "http://localhost");
  searchParams.set("cursor", cursor);
  return `${pathname}?${searchParams}`;
};
