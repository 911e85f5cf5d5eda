/** The columns that identify a delegation in the log. */
export const DELEGATION_KEY = "chain_id, registry, vault, delegate, type, contract, token_id, rights";

/**
 * Selects the delegations that were active at a block: the latest change of each, if it left the delegation active.
 * @param log the relation with the log
 * @param condition an SQL condition for the changes up to the block, and for the delegations to include
 */
export const selectActiveAt = (log: string, condition: string): string => `(
  select * from (
    select distinct on (${DELEGATION_KEY}) *
    from ${log}
    where ${condition}
    order by ${DELEGATION_KEY}, block_number desc, log_index desc
  ) latest
  where active)`;
