/** What makes two changes those of one delegation. */
export const IDENTITY = "chain_id, registry, vault, delegate, type, contract, token_id, rights";

/**
 * The delegations that were active at a block, from the log: the latest change of each up to it, if that left
 * it active.
 * @param log the relation that holds the log
 * @param condition which changes count: those up to the block, and of which delegations
 */
export const activeAt = (log: string, condition: string): string => `(
  select * from (
    select distinct on (${IDENTITY}) *
    from ${log}
    where ${condition}
    order by ${IDENTITY}, block_number desc, log_index desc
  ) latest
  where active)`;
