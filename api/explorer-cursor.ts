import type { Place } from "./queries/explorer/rows.ts";

/** Where a page of a list ends, as an opaque text. With another list it would silently leave something out. */
export const encodePlace = (list: string, { blockNumber, logIndex, ordinal }: Place): string =>
  Buffer.from(`${list} ${blockNumber}.${logIndex}.${ordinal}`).toString("base64url");

export type ExplorerCursor = { list: string; place: Place };

const PATTERN = /^([\w. ]{1,100}) (\d{1,18})\.(\d{1,9})\.(\d{1,9})$/;

/** Reads a text as a cursor of any list. */
export const parsePlace = (text: string): ExplorerCursor | undefined => {
  const [, list, blockNumber, logIndex, ordinal] =
    PATTERN.exec(Buffer.from(text, "base64url").toString("latin1")) ?? [];
  if (list === undefined || blockNumber === undefined || logIndex === undefined || ordinal === undefined) return;
  return { list, place: { blockNumber, logIndex, ordinal } };
};
