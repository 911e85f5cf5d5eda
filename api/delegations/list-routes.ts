import { createRoute, z } from "@hono/zod-openapi";
import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import type { ApiApp, ApiContext } from "../context.ts";
import { addOperation } from "../contract/add-operation.ts";
import { defineParameters } from "../contract/define-parameters.ts";
import {
  type Cursor,
  cursor,
  encodeCursor,
  linkToNextPage,
  nameRegistryList,
  WRONG_CURSOR,
} from "../contract/paging.ts";
import {
  type AskedBlock,
  blocks,
  chainId,
  details,
  limit,
  MAX_LIMIT,
  numbers,
  SAMPLES,
  validateBlocks,
  wallet,
} from "../contract/parameters.ts";
import { describeAnswers, LINK, OPTIONAL_KEY } from "../contract/responses.ts";
import type { Freshness } from "../database/freshness.ts";
import type { ParameterError } from "../problem.ts";
import { answerHeaders, respond } from "../respond.ts";
import { renderInSlices } from "../slices.ts";
import { createRenderer } from "./delegation-json.ts";
import type { Dependencies } from "./dependencies.ts";
import { DelegationLists, type ListQuestion } from "./list-delegations.ts";
import type { ListRow } from "./list-directions.ts";
import { streamList } from "./list-stream.ts";

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

/** Adds the lists of a wallet's delegations, v1 and v2. */
export const addLists = (app: ApiApp, { database, shards, batches, log }: Dependencies): void => {
  const context = { shards, log, lists: new DelegationLists(database, batches.lists) };
  for (const version of ["v1", "v2"] as const) {
    const takesKey = version === "v2";
    const validateChain = shards.validateChain(version);
    const { request, read } = defineParameters({
      params: { wallet },
      query: { chainId, ...blocks, details, limit, cursor, numbers },
      validate: (values) => [...validateChain(values), ...validateBlocks(values), ...validateCursor(version, values)],
    });
    const route = createRoute({
      method: "get",
      summary: "All delegations of a wallet",
      description:
        "The incoming delegations of a wallet, then its outgoing ones, each oldest first. A delegation to itself is listed once.",
      path: `/registry/${version}/{wallet}`,
      operationId: `${version}Delegations`,
      tags: [version],
      ...(takesKey && { security: OPTIONAL_KEY }),
      request,
      responses: describeAnswers(
        "The delegations; [] if there are none.",
        z.array(SCHEMAS[version]),
        EXAMPLES[version],
        {
          headers: LINK,
          takesKey,
        },
      ),
    });
    addOperation(app, route, (c) => answerList(c, context, { version, ...read(c) }));
  }
};

type ListContext = Pick<Dependencies, "shards" | "log"> & { lists: DelegationLists };

type ListValues = {
  wallet: Address;
  chainId: number;
  details: boolean;
  limit?: number;
  cursor?: Cursor;
  numbers: "number" | "string";
} & AskedBlock;

const validateCursor = (version: RegistryVersion, values: Partial<ListValues>): ParameterError[] => {
  const { cursor, limit, wallet, chainId, block } = values;
  if (cursor === undefined) return [];
  // A key without a value is an absent parameter. An invalid one has no key, and is reported already.
  if (limit === undefined && "limit" in values) return [{ parameter: "cursor", message: "needs limit" }];
  if (wallet === undefined || chainId === undefined || !("block" in values)) return [];
  return cursor.list === nameRegistryList({ version, chainId, wallet, block }) ? [] : [WRONG_CURSOR];
};

const answerList = async (
  c: ApiContext,
  context: ListContext,
  values: ListValues & { version: RegistryVersion },
): Promise<Response> => {
  const { version, wallet, chainId, details, limit, cursor, numbers, minBlock } = values;
  const { shards, lists } = context;
  const schema = shards.findSchema(version, chainId);
  const asked = { block: shards.findBlock(chainId, values), minBlock };
  const question = { schema, version, chainId, wallet, hasDetails: details, block: asked.block };
  const render = createRenderer({ version, chainId, wallet, numbers });
  const describeAnswer = (freshness: Freshness | null) =>
    answerHeaders(shards.requireFresh(chainId, freshness, asked), asked);

  // Nearly all lists are short.
  const short = limit === undefined ? await lists.readShort(question) : null;
  if (short) {
    const headers = describeAnswer(short.freshness);
    return respond(c, 200, `[${await renderInSlices(short.rows, render)}]`, headers);
  }

  const { freshness, rows, end } = await lists.readPage(question, limit ?? MAX_LIMIT, cursor?.position);
  const headers = describeAnswer(freshness);
  if (end && limit === undefined) {
    // A HEAD request has no body to stream.
    if (c.req.method === "HEAD") return respond(c, 200, null, headers);
    return answerLongList(c, context, question, { render, describeAnswer });
  }
  const next = end && encodeCursor({ list: nameRegistryList(question), position: positionOf(end) });
  return respond(c, 200, `[${await renderInSlices(rows, render)}]`, {
    ...headers,
    ...(next && linkToNextPage(c.req.url, next, asked.block)),
  });
};

const positionOf = ({ direction, blockNumber, logIndex }: ListRow) => [`${direction}`, blockNumber, `${logIndex}`];

/** Streams a list that is too long to read at once. Its own statement returns its block. */
const answerLongList = async (
  c: ApiContext,
  { log, lists }: ListContext,
  question: ListQuestion,
  answer: {
    render: (row: ListRow) => string;
    describeAnswer: (freshness: Freshness | null) => Record<string, string>;
  },
): Promise<Response> => {
  // Long lists have places of their own.
  c.get("endTurn")();
  const list = await lists.open(question, c.get("caller"));
  try {
    const headers = answer.describeAnswer(list.freshness);
    const { socket } = c.env.incoming;
    // If the client has left by now, no event would ever close the list.
    if (socket.destroyed) {
      await list.close();
      return respond(c, 200, null, headers);
    }
    const abort = (reason: unknown) => {
      log.warn({ err: reason }, "Aborted a long list");
      // Close the connection: a truncated list is invalid JSON, so no client takes it for the whole.
      socket.destroy();
    };
    return respond(c, 200, streamList(list, answer.render, socket, abort), headers);
  } catch (error) {
    await list.close();
    throw error;
  }
};
