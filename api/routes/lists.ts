import type { HttpBindings } from "@hono/node-server";
import { type OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import { answerHeaders, checkChain, type Source } from "../answering.ts";
import { decodeCursor, encodeCursor } from "../cursor.ts";
import { type Rendering, renderDelegation } from "../delegation-json.ts";
import { streamList } from "../list-stream.ts";
import { addOperation } from "../operation.ts";
import { chainId, cursor, details, limit, MAX_LIMIT, numbers, SAMPLES, wallet } from "../parameters.ts";
import type { ParameterError } from "../problem.ts";
import { type ListQuestion, openList, readPage } from "../queries/list-delegations.ts";
import { answers, LINK } from "./responses.ts";

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
export const addLists = (app: OpenAPIHono, source: Source): void => {
  for (const version of ["v1", "v2"] as const) {
    addOperation(
      app,
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
      (values, context) => answerList(source, version, values, context),
    );
  }
};

type ListValues = {
  wallet: Address;
  chainId: number;
  details: boolean;
  limit: number | null;
  cursor: string | null;
  numbers: "number" | "string";
};

const checkCursor = (version: RegistryVersion, values: Partial<ListValues>): ParameterError[] => {
  const { cursor, limit, wallet, chainId } = values;
  if (cursor === null || cursor === undefined) return [];
  if (limit === null) return [{ parameter: "cursor", message: "needs limit" }];
  if (wallet === undefined || chainId === undefined) return [];
  return decodeCursor(cursor, { version, chainId, wallet })
    ? []
    : [{ parameter: "cursor", message: "is not one that this list gave: start again without it" }];
};

const answerList = async (
  source: Source,
  version: RegistryVersion,
  { wallet, chainId, details, limit, cursor, numbers }: ListValues,
  context: Context,
): Promise<Response> => {
  const { database, shards } = source;
  const list = { version, chainId, wallet };
  const question = { ...list, schema: shards.schemaOf(version, chainId), hasDetails: details };
  const rendering = { ...list, numbers };

  // One more than is sent tells whether there are more.
  const after = cursor === null ? undefined : (decodeCursor(cursor, list) ?? undefined);
  const size = limit ?? MAX_LIMIT;
  const page = await readPage(database, question, size + 1, after);
  const headers = answerHeaders(shards.requireFresh(chainId, page.freshness));
  const isWhole = page.delegations.length <= size;

  if (!isWhole && limit === null) {
    // A HEAD has nothing to stream.
    if (context.req.method === "HEAD") return context.body(null, 200, headers);
    return answerLongList(source, question, rendering, context);
  }
  const shown = page.delegations.slice(0, size);
  const last = shown.at(-1);
  if (!isWhole && last) headers.Link = `<${nextPage(context.req.url, encodeCursor(last.position, list))}>; rel="next"`;
  return context.body(
    `[${shown.map((delegation) => renderDelegation(delegation, rendering)).join(",")}]`,
    200,
    headers,
  );
};

/** A list that is too long to be read at once. Its own statement says at which block it is true. */
const answerLongList = async (
  { database, shards, log }: Source,
  question: ListQuestion,
  rendering: Rendering,
  context: Context<{ Bindings: HttpBindings }>,
): Promise<Response> => {
  const list = await openList(database, question);
  try {
    const headers = answerHeaders(shards.requireFresh(question.chainId, list.freshness));
    const { outgoing } = context.env;
    // Of whoever has left by now, nothing would ever say that the list is not needed any more.
    if (outgoing.destroyed) {
      await list.close();
      return context.body(null, 200, headers);
    }
    const stream = streamList(list, rendering, (reason) => {
      log.warn({ err: reason }, "A long list broke off");
      outgoing.destroy();
    });
    return new Response(stream, { status: 200, headers });
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
