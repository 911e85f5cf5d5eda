import { createHash } from "node:crypto";

/** The end of a page, for keyset pagination. */
export type WalletCursor = {
  list: string;
  /** The numbers by which its rows are ordered. */
  position: readonly string[];
  /** The block of each chain, if the list is of newest final blocks: by the next page there are newer ones. */
  blocks: readonly (readonly [chainId: string, block: string])[];
  /** Chains that an earlier page is without; null for those that are not known. */
  missing: readonly (number | null)[];
};

/**
 * Hashes the question of a list. With the cursor of another list, a page would silently skip rows. The hash starts with
 * the number of parts of the list's positions: the history is ordered by time, then by four numbers like the others.
 */
export const hashQuestion = (question: { list: string; [name: string]: unknown }): string => {
  const hash = createHash("sha256").update(JSON.stringify(question)).digest("base64url");
  return `${question.list === "history" ? 5 : 4}${hash.slice(0, 15)}`;
};

/** The chain of a position is the first of its last four numbers. */
export const chainOf = ({ position }: WalletCursor): number => Number(position.at(-4));

/** Writes a cursor as opaque text. */
export const encodeWalletCursor = ({ list, position, blocks, missing }: WalletCursor): string => {
  const parts = [list, position.join("."), blocks.flat().join("."), missing.map((chainId) => chainId ?? 0).join(".")];
  return Buffer.from(parts.join("~")).toString("base64url");
};

const NUMBER = "(?:0|[1-9]\\d{0,17})";
const START = `(4[\\w-]{15}~${NUMBER}(\\.${NUMBER}){3}|5[\\w-]{15}~${NUMBER}(\\.${NUMBER}){4})`;
const PATTERN = new RegExp(
  `^${START}~(${NUMBER}\\.${NUMBER}(\\.${NUMBER}\\.${NUMBER})*)?~(${NUMBER}(\\.${NUMBER})*)?$`,
);

/** Reads a cursor of any list. */
export const parseWalletCursor = (text: string): WalletCursor | undefined => {
  const decoded = Buffer.from(text, "base64url").toString("latin1");
  if (!PATTERN.test(decoded)) return undefined;
  const [[list = ""] = [], position = [], blocks = [], missing = []] = decoded
    .split("~")
    .map((part) => part.split(".").filter(Boolean));
  return {
    list,
    position,
    blocks: blocks.flatMap((chainId, place) => (place % 2 === 0 ? [[chainId, blocks[place + 1] ?? ""] as const] : [])),
    missing: missing.map((chainId) => Number(chainId) || null),
  };
};
