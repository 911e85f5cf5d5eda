import type pg from "pg";
import { expect } from "vitest";

// Recomputes the daily and per-contract summaries from the change log and the active delegations.

const DAILY_FROM_LOG = `
  select (block_timestamp at time zone 'UTC')::date::text as day, chain_id, registry, type, token_standard,
    count(*) filter (where active and not was_active) as made,
    count(*) filter (where active and was_active) as changed,
    count(*) filter (where not active) as revoked
  from (
    select *, coalesce(lag(active) over (
      partition by chain_id, registry, type, token_standard, vault, delegate, contract, token_id, rights
      order by block_number, log_index), false) as was_active
    from analytics.changes
  ) change
  group by 1, 2, 3, 4, 5`;

const DAILY =
  "select day::text, chain_id, registry, type, token_standard, made, changed, revoked from analytics.daily_activity";

/** Contracts without active delegations are not in CONTRACTS_FROM_ACTIVE. */
const CONTRACTS = "select chain_id, contract, delegations from analytics.contracts where delegations <> 0";
const CONTRACTS_FROM_ACTIVE = `
  select chain_id, contract, count(*) as delegations from analytics.delegations where contract is not null group by 1, 2`;

/** Compares both summaries with the recomputed ones. One statement each, so that both sides share a snapshot. */
export const expectCorrectSums = async (client: pg.Client): Promise<void> => {
  for (const [summed, counted] of [
    [DAILY, DAILY_FROM_LOG],
    [CONTRACTS, CONTRACTS_FROM_ACTIVE],
  ]) {
    const { rows } = await client.query(
      `with summed as (${summed}), counted as (${counted})
       select 'summed' as only, * from (table summed except all table counted) a
       union all
       select 'counted', * from (table counted except all table summed) b`,
    );
    expect(rows).toEqual([]);
  }
};
