import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";

// What a reader of changes wants to be told of.

export type Finality = "final" | "latest";

export type Filters = {
  registry: RegistryVersion | "both";
  wallet?: Address | undefined;
  vault?: Address | undefined;
  delegate?: Address | undefined;
  contract?: Address | undefined;
  type?: "ALL" | "CONTRACT" | "TOKEN" | undefined;
};

/** Tells if all rows that are read are listed: otherwise a statement reads more of them. */
const areAllListed = ({ registry, contract, type, ...wallets }: Filters): boolean =>
  registry === "both" && !contract && !type && Object.values(wallets).filter(Boolean).length < 2;

/** Changes that a stream or a webhook reads by itself at a time: about as many as a stream has room for. */
export const ROWS_ALONE = 100;
const ROWS_TO_SEARCH_ALONE = 1_000;

/** Tells how many rows to read: more if not all of them are listed. */
export const rowsToRead = (filters: Filters, rows = ROWS_ALONE, rowsToSearch = ROWS_TO_SEARCH_ALONE): number =>
  areAllListed(filters) ? rows : rowsToSearch;
