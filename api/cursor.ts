import type { Address } from "viem";
import type { RegistryVersion } from "../registry/networks.ts";
import type { Position } from "./queries/list-delegations.ts";

/** The list that a cursor is for: with another one it would silently leave out delegations. */
type List = { version: RegistryVersion; chainId: number; wallet: Address };

const listName = ({ version, chainId, wallet }: List) => `${version}.${chainId}.${wallet}`;

/** Where a page ends, as an opaque text. */
export const encodeCursor = ({ direction, blockNumber, logIndex }: Position, list: List): string =>
  Buffer.from(`${listName(list)}.${direction}.${blockNumber}.${logIndex}`).toString("base64url");

const decode = (cursor: string) =>
  /^(?<list>v[12]\.\d+\.0x[0-9a-f]{40})\.(?<direction>incoming|outgoing)\.(?<blockNumber>\d{1,18})\.(?<logIndex>\d{1,9})$/.exec(
    Buffer.from(cursor, "base64url").toString(),
  )?.groups;

/** Whether a text could be a cursor of any list. */
export const isCursor = (text: string): boolean => decode(text) !== undefined;

/** The position in a cursor of this list, or null. */
export const decodeCursor = (cursor: string, list: List): Position | null => {
  const { list: name, direction, blockNumber, logIndex } = decode(cursor) ?? {};
  if (name !== listName(list) || blockNumber === undefined || logIndex === undefined) return null;
  return { direction: direction === "incoming" ? "incoming" : "outgoing", blockNumber, logIndex };
};
