/** The block number in one of Ponder's checkpoints: digits of timestamp (10), chain id (16), block number (16) and more. */
export const blockOf = (checkpoint: string) => `substring(${checkpoint} from 27 for 16)::bigint`;
