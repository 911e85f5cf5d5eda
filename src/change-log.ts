import type { Context } from "ponder:registry";
import { delegationChange } from "ponder:schema";
import type { Hash } from "viem";
import { type DelegationKeyV1, type DelegationKeyV2, FULL_RIGHTS } from "../registry/delegation.ts";
import { getChainProgress } from "./chain-progress.ts";

/** The fields of a Ponder event that the log stores. */
export type LogEvent = {
  /** Increases from event to event of a chain. */
  id: string;
  block: { number: bigint; timestamp: bigint };
  log: { logIndex: number };
  transaction: { hash: Hash };
};

export type Position = ReturnType<typeof readPosition>;

/**
 * Reads the position of an event on its chain.
 *
 * During a backfill it throws for an event that was handled before. When the connection breaks during a commit, Ponder
 * retries the transaction, but its memory has the rows of the failed attempt: every change would look stored already, and
 * be skipped. After a restart Ponder continues from the stored rows. Live, newest-block.ts detects such a retry.
 */
export const readPosition = (context: Context, event: LogEvent) => {
  const progress = getChainProgress(context);
  if (!progress.isLive && !progress.recordBackfilled(event.id)) {
    throw new Error(
      `An event of chain ${context.chain.id} was handled twice: its commit may have failed. A restart continues from the stored rows.`,
    );
  }
  return {
    blockNumber: event.block.number,
    logIndex: event.log.logIndex,
    blockTimestamp: event.block.timestamp,
    transactionHash: event.transaction.hash,
  };
};

type Change = {
  eventName: string;
  /** The number of this change among its event's changes. */
  ordinal?: number;
  active: boolean;
  wasActive: boolean;
  amount: bigint;
  /** The event that made the delegation, or its row, which has it. */
  madeBy: Pick<Position, "blockNumber" | "logIndex">;
} & ({ registry: "v1"; delegation: DelegationKeyV1 } | { registry: "v2"; delegation: DelegationKeyV2 });

/** Appends one change to the log: Ponder is slow at copying an array of rows. */
export const appendChange = async (context: Context, position: Position, change: Change) => {
  const { eventName, ordinal = 0, active, wasActive, amount, madeBy, registry, delegation } = change;
  await context.db.insert(delegationChange).values({
    chainId: context.chain.id,
    ...position,
    ordinal,
    registry,
    rights: FULL_RIGHTS,
    ...delegation,
    active,
    wasActive,
    amount,
    event: eventName,
    madeBlock: madeBy.blockNumber,
    madeLogIndex: madeBy.logIndex,
  });
};
