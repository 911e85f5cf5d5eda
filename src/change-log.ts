import type { Context } from "ponder:registry";
import { delegationChange } from "ponder:schema";
import type { Hash } from "viem";
import { type DelegationKeyV1, type DelegationKeyV2, FULL_RIGHTS } from "../registry/delegation.ts";

/** What the log takes from a Ponder event. */
type LogEvent = {
  block: { number: bigint; timestamp: bigint };
  log: { logIndex: number };
  transaction: { hash: Hash };
};

export type Position = ReturnType<typeof positionOf>;

/** Where on the chain an event stands. */
export const positionOf = (event: LogEvent) => ({
  blockNumber: event.block.number,
  logIndex: event.log.logIndex,
  blockTimestamp: event.block.timestamp,
  transactionHash: event.transaction.hash,
});

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
