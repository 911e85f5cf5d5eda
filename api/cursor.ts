import type { Address } from "viem";
import type { RegistryVersion } from "../registry/networks.ts";
import type { Position } from "./queries/list-delegations.ts";

/** The list that a cursor is for: with another one it would silently leave out delegations. */
type List = { version: RegistryVersion; chainId: number; wallet: Address };

const listName = ({ version, chainId, wallet }: List) => `${version}.${chainId}.${wallet}`;

/** Where a page ends, as an opaque text. */
export const encodeCursor = ({ direction, blockNumber, logIndex }: Position, list: List): string =>
  Buffer.from(`${listName(list)}.${direction}.${blockNumber}.${logIndex}`).toString("base64url");

/** A cursor as it was given: of which list, and where in it. */
export type Cursor = { list: string; position: Position };

const PATTERN = /^(v[12]\.\d+\.0x[0-9a-f]{40})\.(incoming|outgoing)\.(\d{1,18})\.(\d{1,9})$/;

/** Reads a text as a cursor of any list. */
export const parseCursor = (text: string): Cursor | undefined => {
  const [, list, direction, blockNumber, logIndex] = PATTERN.exec(Buffer.from(text, "base64url").toString()) ?? [];
  if (list === undefined || blockNumber === undefined || logIndex === undefined) return undefined;
  const position = { direction: direction === "incoming" ? "incoming" : "outgoing", blockNumber, logIndex } as const;
  return { list, position };
};

/** Whether a cursor is one of this list. */
export const isCursorOf = (cursor: Cursor, list: List): boolean => cursor.list === listName(list);
