import type { ExplorerPosition } from "./explorer-rows.ts";

/** The end of a page of a list, for keyset pagination. With another list it would silently skip rows. */
export type ExplorerCursor = { list: string; position: ExplorerPosition };

/** Writes a cursor as opaque text. */
export const encodeExplorerCursor = (list: string, { blockNumber, logIndex, ordinal }: ExplorerPosition): string =>
  Buffer.from(`${list} ${blockNumber}.${logIndex}.${ordinal}`).toString("base64url");

const PATTERN = /^([\w. ]{1,100}) (\d{1,18})\.(\d{1,9})\.(\d{1,9})$/;

/** Reads a cursor of any list. */
export const parseExplorerCursor = (text: string): ExplorerCursor | undefined => {
  const [, list, blockNumber, logIndex, ordinal] =
    PATTERN.exec(Buffer.from(text, "base64url").toString("latin1")) ?? [];
  if (list === undefined || blockNumber === undefined || logIndex === undefined || ordinal === undefined) return;
  return { list, position: { blockNumber, logIndex, ordinal } };
};
