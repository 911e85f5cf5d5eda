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

/** Names a list by its question. With the cursor of another list, a page would silently skip rows. */
export const nameList = (question: object): string =>
  createHash("sha256").update(JSON.stringify(question)).digest("base64url").slice(0, 16);

/** Writes a cursor as opaque text. */
export const encodeWalletCursor = ({ list, position, blocks, missing }: WalletCursor): string => {
  const parts = [list, position.join("."), blocks.flat().join("."), missing.map((chainId) => chainId ?? 0).join(".")];
  return Buffer.from(parts.join("~")).toString("base64url");
};

const NUMBER = "\\d{1,18}";
const PATTERN = new RegExp(
  `^[\\w-]{16}~${NUMBER}(\\.${NUMBER}){3,4}~(${NUMBER}\\.${NUMBER}(\\.${NUMBER}\\.${NUMBER})*)?~(${NUMBER}(\\.${NUMBER})*)?$`,
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
