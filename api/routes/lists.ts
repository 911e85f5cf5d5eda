import { createRoute, z } from "@hono/zod-openapi";
import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import type { ApiApp, ApiContext } from "../context.ts";
import { type Cursor, encodeCursor, isCursorOf } from "../cursor.ts";
import { type Rendering, renderDelegations } from "../delegation-json.ts";
import { streamList } from "../list-stream.ts";
import { chainId, cursor, details, limit, MAX_LIMIT, numbers, SAMPLES, wallet } from "../parameters.ts";
import type { ParameterError } from "../problem.ts";
import { DelegationLists, type ListQuestion } from "../queries/list-delegations.ts";
import { defineParameters } from "../read-parameters.ts";
import { answerHeaders, respond } from "../respond.ts";
import type { Source } from "../source.ts";
import { addOperation } from "./add-operation.ts";
import { answers, LINK, OPTIONAL_KEY } from "./responses.ts";

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

const list = {
  method: "get",
  summary: "All delegations of a wallet",
  description:
    "The incoming delegations of a wallet, then its outgoing ones, each oldest first. A delegation to itself is listed once.",
} as const;

const LISTED = "The delegations; [] if there are none.";

/** The lists of a wallet's delegations, v1 and v2. */
export const addLists = (app: ApiApp, source: Source): void => {
  const lists = new DelegationLists(source.database, source.batches.lists);
  const parametersOf = (version: RegistryVersion) =>
    defineParameters({
      params: { wallet },
      query: { chainId, details, limit, cursor, numbers },
      check: (values) => [...source.shards.checkChain(version)(values), ...checkCursor(version, values)],
    });

  const v1 = parametersOf("v1");
  addOperation(
    app,
    createRoute({
      ...list,
      path: "/registry/v1/{wallet}",
      operationId: "v1Delegations",
      tags: ["v1"],
      request: v1.request,
      responses: answers(LISTED, z.array(SCHEMAS.v1), EXAMPLES.v1, { headers: LINK }),
    }),
    (c) => answerList(c, source, lists, { version: "v1", ...v1.read(c) }),
  );

  const v2 = parametersOf("v2");
  addOperation(
    app,
    createRoute({
      ...list,
      path: "/registry/v2/{wallet}",
      operationId: "v2Delegations",
      tags: ["v2"],
      security: OPTIONAL_KEY,
      request: v2.request,
      responses: answers(LISTED, z.array(SCHEMAS.v2), EXAMPLES.v2, { headers: LINK, takesKey: true }),
    }),
    (c) => answerList(c, source, lists, { version: "v2", ...v2.read(c) }),
  );
};

type ListValues = {
  wallet: Address;
  chainId: number;
  details: boolean;
  limit?: number;
  cursor?: Cursor;
  numbers: "number" | "string";
};

const checkCursor = (version: RegistryVersion, values: Partial<ListValues>): ParameterError[] => {
  const { cursor, limit, wallet, chainId } = values;
  if (cursor === undefined) return [];
  // Absent, rather than bad, which is said already.
  if (limit === undefined && "limit" in values) return [{ parameter: "cursor", message: "needs limit" }];
  if (wallet === undefined || chainId === undefined) return [];
  return isCursorOf(cursor, { version, chainId, wallet })
    ? []
    : [{ parameter: "cursor", message: "is not one that this list gave: start again without it" }];
};

const answerList = async (
  c: ApiContext,
  source: Source,
  lists: DelegationLists,
  { version, wallet, chainId, details, limit, cursor, numbers }: ListValues & { version: RegistryVersion },
): Promise<Response> => {
  const { shards } = source;
  const schema = shards.schemaOf(version, chainId);
  const question = { schema, version, chainId, wallet, hasDetails: details };
  const rendering = { version, chainId, wallet, numbers };

  // Nearly all lists are short.
  const short = limit === undefined ? await lists.readShort(question) : null;
  if (short) {
    const headers = answerHeaders(shards.requireFresh(chainId, short.freshness));
    return respond(c, 200, `[${renderDelegations(short.delegations, rendering)}]`, headers);
  }

  // One more than is sent tells whether there are more.
  const size = limit ?? MAX_LIMIT;
  const page = await lists.readPage(question, size + 1, cursor?.position);
  const freshness = shards.requireFresh(chainId, page.freshness);
  const isWhole = page.delegations.length <= size;

  if (!isWhole && limit === undefined) {
    // A HEAD has nothing to stream.
    if (c.req.method === "HEAD") return respond(c, 200, null, answerHeaders(freshness));
    return answerLongList(c, source, lists, question, rendering);
  }
  const shown = page.delegations.slice(0, size);
  const last = shown.at(-1);
  const headers: Record<string, string> = answerHeaders(freshness);
  if (last && !isWhole) headers.Link = `<${nextPage(c.req.url, encodeCursor(last, question))}>; rel="next"`;
  return respond(c, 200, `[${renderDelegations(shown, rendering)}]`, headers);
};

/** A list that is too long to be read at once. Its own statement says at which block it is true. */
const answerLongList = async (
  c: ApiContext,
  { shards, log }: Source,
  lists: DelegationLists,
  question: ListQuestion,
  rendering: Rendering,
): Promise<Response> => {
  const list = await lists.open(question);
  try {
    const headers = answerHeaders(shards.requireFresh(question.chainId, list.freshness));
    const { outgoing } = c.env;
    // Of whoever has left by now, nothing would ever say that the list is not needed any more.
    if (outgoing.destroyed) {
      await list.close();
      return respond(c, 200, null, headers);
    }
    const breakOff = (reason: unknown) => {
      log.warn({ err: reason }, "A long list broke off");
      // The connection with it: half a list is no valid JSON, and nobody takes it for the whole.
      outgoing.destroy();
    };
    return respond(c, 200, streamList(list, rendering, breakOff), headers);
  } catch (error) {
    await list.close();
    throw error;
  }
};

/** The same request with another cursor, without the host, which a proxy may know better. */
const nextPage = (requestUrl: string, cursor: string): string => {
  const { pathname, searchParams } = new URL(requestUrl);
  searchParams.set("cursor", cursor);
  return `${pathname}?${searchParams}`;
};
