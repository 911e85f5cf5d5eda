import type { Context } from "ponder:registry";
import { delegationChange, indexedBlock } from "ponder:schema";
import { type Hash, zeroHash } from "viem";
import { type DelegationKeyV1, type DelegationKeyV2, FULL_RIGHTS } from "../registry/delegation.ts";
import { isLive } from "./live-blocks.ts";

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
  await hideBlock(context);
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

const hidden = new Set<number>();

/**
 * While a chain catches up after a restart its rows run ahead of the block that was told last. Later a reorg, of
 * another chain too, can bring that block back for a moment, but not the rows: so nothing may be said of it any more.
 */
const hideBlock = async (context: Context) => {
  const chainId = context.chain.id;
  if (isLive(chainId) || hidden.has(chainId)) return;
  hidden.add(chainId);
  const told = await context.db.find(indexedBlock, { chainId });
  if (told && told.hash !== zeroHash) await context.db.update(indexedBlock, { chainId }).set({ hash: zeroHash });
};
