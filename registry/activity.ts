import { CONTRACT_OR_NULL } from "./delegation.ts";

// SQL that classifies the changes of the log, for summaries and for changes that are not summarised yet.

/** The day of a change, in UTC. */
export const DAY = "(to_timestamp(block_timestamp) at time zone 'UTC')::date";

/** True for a change that made a delegation. */
export const MADE = "active and not was_active";
/** True for a change of an active delegation's amount. */
export const CHANGED = "active and was_active";
/** True for a change that ended a delegation. */
export const REVOKED = "not active";

/** True for a delegation with a contract. */
export const HAS_CONTRACT = `${CONTRACT_OR_NULL} is not null`;
