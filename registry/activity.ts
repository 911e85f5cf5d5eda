import { CONTRACT_OR_NULL } from "./delegation.ts";

// What the changes of the log count as, in SQL: for what is summed up, and for what is not yet.

/** The day of a change, in UTC. */
export const DAY = "(to_timestamp(block_timestamp) at time zone 'UTC')::date";

/** Whether a change made a delegation, changed its amount, or ended it. */
export const MADE = "active and not was_active";
export const CHANGED = "active and was_active";
export const REVOKED = "not active";

/** Of changes that concern a contract. */
export const OF_A_CONTRACT = `${CONTRACT_OR_NULL} is not null`;
