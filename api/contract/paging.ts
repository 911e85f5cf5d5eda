import { createHash } from "node:crypto";
import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import { parsedText } from "./parameters.ts";

// Keyset pagination: a cursor is the position at which the page before has ended.

/** The numbers by which a list is ordered, in digits. A direction is 0 or 1: incoming delegations come first. */
export type Position = readonly string[];

/** The end of a page. */
export type Cursor = {
  /** The name of its list: with another list, a page would silently skip rows. */
  list: string;
  position: Position;
  /** The block of each chain, if the list is of newest final blocks: by the next page there are newer ones. */
  blocks: readonly (readonly [chainId: string, block: string])[];
  /** Chains that an earlier page is without; null for those that are not known. */
  missing: readonly (number | null)[];
};

type RegistryList = { version: RegistryVersion; chainId: number; wallet: Address; block?: string | undefined };

/** Names the list of a wallet's delegations in one registry. */
export const nameRegistryList = ({ version, chainId, wallet, block }: RegistryList): string =>
  `${version}.${chainId}.${wallet}${block === undefined ? "" : `@${block}`}`;

/**
 * Names a list over several networks by the hash of its question: another order of its fields is another name. The name
 * starts with the number of values in a position: the history is ordered by time, then by four numbers like the others.
 */
export const nameWalletList = (question: { list: string; [name: string]: unknown }): string => {
  const hash = createHash("sha256").update(JSON.stringify(question)).digest("base64url");
  return `${question.list === "history" ? 5 : 4}${hash.slice(0, 15)}`;
};

/** Writes a cursor as opaque text. Only a list over several networks has blocks and missing chains. */
export const encodeCursor = ({
  list,
  position,
  blocks,
  missing,
}: Pick<Cursor, "list" | "position"> & Partial<Cursor>): string => {
  const numbers = position.join(".");
  const text =
    blocks && missing
      ? [list, numbers, blocks.flat().join("."), missing.map((id) => id ?? 0).join(".")].join("~")
      : `${list}.${numbers.replace(/^0/, "incoming").replace(/^1/, "outgoing")}`;
  return Buffer.from(text).toString("base64url");
};

const REGISTRY_CURSOR =
  /^(?<list>v[12]\.\d+\.0x[0-9a-f]{40}(?:@\d+)?)\.(?<position>(?:incoming|outgoing)\.\d{1,18}\.\d{1,9})$/;

const NUMBER = "(?:0|[1-9]\\d{0,17})";
const createWalletCursor = (size: number) =>
  new RegExp(
    [
      `^(?<list>${size}[\\w-]{15})`,
      `(?<position>${NUMBER}(?:\\.${NUMBER}){${size - 1}})`,
      `(?<blocks>(?:${NUMBER}\\.${NUMBER}(?:\\.${NUMBER}\\.${NUMBER})*)?)`,
      `(?<missing>(?:${NUMBER}(?:\\.${NUMBER})*)?)$`,
    ].join("~"),
  );
const FORMS = [REGISTRY_CURSOR, createWalletCursor(4), createWalletCursor(5)];

/** Reads a cursor of any list. */
const parseCursor = (text: string): Cursor | undefined => {
  const decoded = Buffer.from(text, "base64url").toString("latin1");
  for (const form of FORMS) {
    const parts = form.exec(decoded)?.groups;
    if (parts) {
      const { list = "", position = "", blocks, missing } = parts;
      const numbers = position.replace("incoming", "0").replace("outgoing", "1").split(".");
      return { list, position: numbers, blocks: readBlocks(blocks), missing: readMissing(missing) };
    }
  }
  return undefined;
};

const readBlocks = (text = "") =>
  [...text.matchAll(/(\d+)\.(\d+)/g)].map(([, chainId = "", block = ""]) => [chainId, block] as const);

const readMissing = (text = "") =>
  text
    .split(".")
    .filter(Boolean)
    .map((chainId) => Number(chainId) || null);

const WRONG_LIST = "is not from this list: start again without it";

export const WRONG_CURSOR = { parameter: "cursor", message: WRONG_LIST };

export const cursor = parsedText(WRONG_LIST, parseCursor).optional().openapi({
  type: "string",
  description: "The start of the page, from the `Link` header of the page before.",
});

/**
 * Links to the next page: the request's path with another cursor. No host: behind a proxy it may be another one.
 * @param block - the past block of all pages: "finalized" becomes another one
 */
export const linkToNextPage = (requestUrl: string, cursor: string, block?: string) => {
  const { pathname, searchParams } = new URL(requestUrl);
  searchParams.set("cursor", cursor);
  if (block !== undefined) searchParams.set("block", block);
  return { Link: `<${pathname}?${searchParams}>; rel="next"` };
};

/** Before the first row, and after the last. */
const START = ["-1", "0", "0"] as const;
const END = ["9223372036854775807", "0", "0"] as const;

/**
 * Finds where the rows of a group, such as a chain or a direction, start on a page: a list is ordered by groups first.
 * @param group - the values that the positions of these rows start with
 * @param after - the end of the page before
 * @returns the rest of a position
 */
export const findStart = (group: readonly number[], after: Position | undefined): Position => {
  if (!after) return START;
  const place = group.findIndex((value, index) => value !== Number(after[index]));
  if (place === -1) return after.slice(group.length);
  return Number(group[place]) > Number(after[place]) ? START : END;
};

type PageRow = {
  /** False for a row that only tells how far its statement has read. */
  isListed?: boolean;
  /** True if its statement has not read beyond it. */
  isLastRead?: boolean;
};

/** Takes a page from the rows of a list, in their order. `end` is its last row if the list goes on. */
export const takePage = <Row extends PageRow>(
  rows: readonly Row[],
  limit: number,
): { page: Row[]; end: Row | null } => {
  const page: Row[] = [];
  for (const row of rows) {
    if (row.isListed !== false) {
      if (page.length === limit) return { page, end: page.at(-1) ?? null };
      page.push(row);
    }
    if (row.isLastRead) return { page, end: row };
  }
  return { page, end: null };
};
