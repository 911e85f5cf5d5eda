import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import { parsedText } from "../contract/parameters.ts";
import type { ListPosition } from "./list-rows.ts";

/** The end of a page of a list, for keyset pagination. With another list it would silently skip delegations. */
export type ListCursor = { list: string; position: ListPosition };

type ListKey = { version: RegistryVersion; chainId: number; wallet: Address; block?: string | undefined };

const formatKey = ({ version, chainId, wallet, block }: ListKey) =>
  `${version}.${chainId}.${wallet}${block === undefined ? "" : `@${block}`}`;

/** Writes a cursor as opaque text. */
export const encodeListCursor = ({ direction, blockNumber, logIndex }: ListPosition, list: ListKey): string =>
  Buffer.from(`${formatKey(list)}.${direction}.${blockNumber}.${logIndex}`).toString("base64url");

const PATTERN = /^(v[12]\.\d+\.0x[0-9a-f]{40}(?:@\d+)?)\.(incoming|outgoing)\.(\d{1,18})\.(\d{1,9})$/;

/** Reads a cursor of any list. */
const parseListCursor = (text: string): ListCursor | undefined => {
  const [, list, direction, blockNumber, logIndex] = PATTERN.exec(Buffer.from(text, "base64url").toString()) ?? [];
  if (list === undefined || blockNumber === undefined || logIndex === undefined) return undefined;
  const position = { direction: direction === "incoming" ? "incoming" : "outgoing", blockNumber, logIndex } as const;
  return { list, position };
};

export const isCursorOfList = (cursor: ListCursor, list: ListKey): boolean => cursor.list === formatKey(list);

export const cursor = parsedText("is not a cursor of a list: start again without it", parseListCursor)
  .optional()
  .openapi({
    type: "string",
    description: "The start of the page, from the `Link` header of the page before.",
  });
