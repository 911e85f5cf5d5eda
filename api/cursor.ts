import type { Address } from "viem";
import type { RegistryVersion } from "../registry/networks.ts";
import type { Position } from "./queries/list-delegations.ts";

/** The list that a cursor is for: with another one it would silently leave out delegations. */
type List = { version: RegistryVersion; chainId: number; wallet: Address };

const listName = ({ version, chainId, wallet }: List) => `${version}.${chainId}.${wallet}`;

/** Where a page ends, as an opaque text. */
export const encodeCursor = ({ direction, blockNumber, logIndex }: Position, list: List): string =>
  Buffer.from(`${listName(list)}.${direction}.${blockNumber}.${logIndex}`).toString("base64url");

/** The position in a cursor of this list, or null. */
export const decodeCursor = (cursor: string, list: List): Position | null => {
  const text = Buffer.from(cursor, "base64url").toString();
  const name = `${listName(list)}.`;
  if (!text.startsWith(name)) return null;
  const [, direction, blockNumber, logIndex] =
    /^(incoming|outgoing)\.(\d{1,18})\.(\d{1,9})$/.exec(text.slice(name.length)) ?? [];
  if (!direction || !blockNumber || !logIndex) return null;
  return {
    direction: direction === "incoming" ? "incoming" : "outgoing",
    blockNumber,
    logIndex,
  };
};
