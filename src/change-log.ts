import type { Context } from "ponder:registry";
import { delegationChange } from "ponder:schema";
import type { Hash } from "viem";
import { type DelegationKeyV1, type DelegationKeyV2, FULL_RIGHTS } from "../registry/delegation.ts";
import { isLive } from "./live-blocks.ts";

/** What the log takes from a Ponder event. */
type LogEvent = {
  /** Grows from event to event of a chain. */
  id: string;
  block: { number: bigint; timestamp: bigint };
  log: { logIndex: number };
  transaction: { hash: Hash };
};

export type Position = ReturnType<typeof positionOf>;

/** By chain, the newest event of its history that was handled. */
const newestHandled = new Map<number, string>();

/**
 * Where on the chain an event stands.
 *
 * In history it refuses an event that was handled before. When the connection breaks during a commit, Ponder tries the
 * transaction again, and its memory has what the failed attempt wrote: every change would look stored already, and be
 * left out. After a restart Ponder goes on from what is stored. Live, newest-block.ts sees such a second attempt.
 */
export const positionOf = (context: Context, event: LogEvent) => {
  const chainId = context.chain.id;
  if (!isLive(chainId)) {
    if (event.id <= (newestHandled.get(chainId) ?? "")) {
      throw new Error(`Blocks of chain ${chainId} were indexed, and may not have been stored. A restart finds out.`);
    }
    newestHandled.set(chainId, event.id);
  }
  return {
    blockNumber: event.block.number,
    logIndex: event.log.logIndex,
    blockTimestamp: event.block.timestamp,
    transactionHash: event.transaction.hash,
  };
};

type Change = { active: boolean; wasActive: boolean; amount: bigint } & (
  | { registry: "v1"; delegation: DelegationKeyV1 }
  | { registry: "v2"; delegation: DelegationKeyV2 }
);

/**
 * Appends a change to the log. Of several by one event each has its ordinal, in their order. One by one:
 * Ponder copies an array of rows in a slow way.
 */
export const appendChange = async (
  context: Context,
  position: Position,
  eventName: string,
  { registry, delegation, active, wasActive, amount }: Change,
  ordinal = 0,
) => {
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
  });
};
