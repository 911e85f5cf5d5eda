import type { Address } from "viem";
import type { FreshnessColumns } from "../database/freshness.ts";

/** A position in a wallet's list: incoming first, then outgoing, each by the event that made it active. Digits. */
export type ListPosition = { direction: "incoming" | "outgoing"; blockNumber: string; logIndex: string };

/** Numbers are digits. */
export type ListedDelegation = ListPosition & {
  type: string;
  /** The wallet at the other end. */
  other: Address;
  contract: Address;
  tokenId: string;
  details: { rights: string; amount: string; blockTimestamp: string; transactionHash: string } | null;
};

/** Values of the column `direction`: incoming delegations sort first. */
export const INCOMING = 0;
export const OUTGOING = 1;

/** A row as Postgres sends it. A row without a direction has the block only, and no delegation. */
export type ListRow = FreshnessColumns & {
  /** With several lists in one statement: the number of the row's list, from 1. */
  list?: string;
  direction: number | null;
  blockNumber: string;
  logIndex: number;
  type: string;
  other: Address;
  contract: Address;
  tokenId: string;
  rights?: string;
  amount?: string;
  blockTimestamp?: string;
  transactionHash?: string;
  /** At a past block: false for a row that only tells how far the log was read. */
  isListed?: boolean;
  /** At a past block: true if the log was not read beyond this row. */
  isLastRead?: boolean;
};

export const readDelegation = (row: ListRow): ListedDelegation => {
  const { direction, blockNumber, logIndex, type, other, contract, tokenId, transactionHash } = row;
  const { rights = "", amount = "0", blockTimestamp = "" } = row;
  return {
    direction: direction === INCOMING ? "incoming" : "outgoing",
    blockNumber,
    logIndex: String(logIndex),
    type,
    other,
    contract,
    tokenId,
    details: transactionHash === undefined ? null : { rights, amount, blockTimestamp, transactionHash },
  };
};
