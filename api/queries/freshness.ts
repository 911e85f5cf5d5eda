/** The block that an answer is true at, read in the same statement as the answer. Digits, as Postgres gives them. */
export type Freshness = { indexedBlock: string; indexedBlockTimestamp: string; finalizedBlock: string };

/** The columns of `indexed_block` that tell it. */
export const freshnessColumns = (block: string) => `${block}.number, ${block}.timestamp, ${block}.finalized_number`;

/** What those columns say; null while nothing can be said of the chain. */
export const readFreshness = ([number, timestamp, finalized]: readonly unknown[]): Freshness | null =>
  number === null
    ? null
    : { indexedBlock: String(number), indexedBlockTimestamp: String(timestamp), finalizedBlock: String(finalized) };
