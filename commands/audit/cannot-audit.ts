import type { Hash } from "viem";
import type { Block } from "../../indexer/verification/registry-reader.ts";

/** The audit cannot determine whether the index is right. The message gives the reason and what to do. */
export class CannotAuditError extends Error {
  override name = "CannotAuditError";
}

/** At the same height, the chain has another block than the index, or none. */
export class OtherForkError extends Error {
  override name = "OtherForkError";
  readonly block: Block;
  /** Hash of the chain's block; null if the RPC has none. */
  readonly actual: Hash | null;

  constructor(block: Block, actual: Hash | null) {
    super(
      `block ${block.number}: the index says ${block.hash}, the chain says ${actual}. They are on different forks, nothing else was compared`,
    );
    this.block = block;
    this.actual = actual;
  }
}
