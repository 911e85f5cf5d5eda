import type { Hash } from "viem";

export type Block = { number: bigint; hash: Hash };

/** It cannot be found out whether the index is right: why, and what to do about it. */
export class CannotAuditError extends Error {
  override name = "CannotAuditError";
}

/** The chain has another block than the index at the same height, or none yet. */
export class OtherForkError extends Error {
  override name = "OtherForkError";
  readonly block: Block;
  /** The chain's own; null where the RPC knows none. */
  readonly actual: Hash | null;

  constructor(block: Block, actual: Hash | null) {
    super(
      `block ${block.number}: the index says ${block.hash}, the chain says ${actual}. They are on different forks, nothing else was compared`,
    );
    this.block = block;
    this.actual = actual;
  }
}
