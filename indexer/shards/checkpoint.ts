/** SQL for the block number in a Ponder checkpoint: digits of timestamp (10), chain id (16), block number (16) and more. */
export const checkpointBlock = (checkpoint: string) => `substring(${checkpoint} from 27 for 16)::bigint`;

/** SQL for the newest final block of a row `block` of indexed_block and its chain's row `checkpoint`. */
export const FINAL_BLOCK = `least(block.number, ${checkpointBlock("checkpoint.finalized_checkpoint")})`;

/** SQL for the timestamp of that block. */
export const FINAL_TIMESTAMP =
  "least(block.timestamp, substring(checkpoint.finalized_checkpoint from 1 for 10)::bigint)";

/** Formats the checkpoint after all events of a block. */
export const formatCheckpoint = (block: { chainId: number; number: number; timestamp: bigint }): string => {
  const digits = (value: number | bigint, length: number) => String(value).padStart(length, "0");
  const position = digits(block.timestamp, 10) + digits(block.chainId, 16) + digits(block.number, 16);
  return position.padEnd(75, "9");
};
