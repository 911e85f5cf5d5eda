/** The block number in one of Ponder's checkpoints: digits of timestamp (10), chain id (16), block number (16) and more. */
export const blockOf = (checkpoint: string) => `substring(${checkpoint} from 27 for 16)::bigint`;

/** The newest block of a row `block` of indexed_block that is final, by its chain's row `checkpoint`. */
export const FINAL_BLOCK = `least(block.number, ${blockOf("checkpoint.finalized_checkpoint")})`;
