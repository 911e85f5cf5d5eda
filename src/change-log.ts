import type { Context } from "ponder:registry";
import { delegationChange } from "ponder:schema";
import type { Hash } from "viem";
import { type DelegationKeyV1, type DelegationKeyV2, FULL_RIGHTS } from "../registry/delegation.ts";

/** What the log takes from a Ponder event. */
export type LogEvent = {
  block: { number: bigint; timestamp: bigint };
  log: { logIndex: number };
  transaction: { hash: Hash };
};

/** Where on the chain an event stands. */
export const positionOf = (event: LogEvent) => ({
  blockNumber: event.block.number,
  logIndex: event.log.logIndex,
  blockTimestamp: event.block.timestamp,
  transactionHash: event.transaction.hash,
});

type Change = { active: boolean; amount: bigint } & (
  | { registry: "v1"; delegation: DelegationKeyV1 }
  | { registry: "v2"; delegation: DelegationKeyV2 }
);

/** Appends what an event changed to the log, in the given order. */
export const appendChanges = async (
  context: Context,
  event: LogEvent,
  eventName: string,
  changes: readonly Change[],
) => {
  if (changes.length === 0) return;
  await context.db.insert(delegationChange).values(
    changes.map(({ registry, delegation, active, amount }, ordinal) => ({
      chainId: context.chain.id,
      ...positionOf(event),
      ordinal,
      registry,
      rights: FULL_RIGHTS,
      ...delegation,
      active,
      amount,
      event: eventName,
    })),
  );
};
