import type { Database, Statement } from "../database.ts";

/** Days and weeks that are told one by one. */
const RECENT_DAYS = 90;
const TOP_CONTRACTS = 20;

/** What happened on a chain from a day on: for a day, or for the week that begins with it (Monday). */
export type Activity = { start: string; chainId: number; type: string; made: number; changed: number; revoked: number };

type ContractActivity = { chainId: number; contract: string; delegations: number; made: number };

export type InsightRows = {
  days: Activity[];
  weeks: Activity[];
  contracts: ContractActivity[];
  summedChains: number[];
};

type Row = {
  kind: "week" | "day" | "contract" | "chain";
  /** Of a week or a day; of a contract, its address. */
  subject: string | null;
  chainId: string;
  type: string | null;
  made: string | null;
  changed: string | null;
  revoked: string | null;
  delegations: string | null;
};

/** Whatever is summed up, and as little of the log as comes after that: a chain without sums is left for the next time. */
const STATEMENT: Statement<Row> = {
  name: "insights",
  params: [],
  text: `
  with summed as materialized (select array_agg(chain_id) as chains from analytics.chains where summed_block is not null),
  activity as materialized (
    select day, chain_id, coalesce(token_standard, type) as type,
      sum(made) as made, sum(changed) as changed, sum(revoked) as revoked
    from analytics.daily_activity where chain_id = any ((select chains from summed)::bigint[])
    group by 1, 2, 3
  ),
  contracts as (
    select chain_id, contract, delegations, made
    from analytics.contracts where chain_id = any ((select chains from summed)::bigint[]) and delegations > 0
    order by delegations desc, made desc, chain_id, contract
    limit ${TOP_CONTRACTS}
  )
  select 'week' as kind, date_trunc('week', day)::date::text as subject, chain_id as "chainId", type,
    sum(made) as made, sum(changed) as changed, sum(revoked) as revoked, null::bigint as delegations
  from activity group by 2, 3, 4
  union all
  select 'day', day::text, chain_id, type, made, changed, revoked, null
  from activity where day > (now() at time zone 'UTC')::date - ${RECENT_DAYS}
  union all
  select 'contract', contract, chain_id, null, made, null, null, delegations from contracts
  union all
  select 'chain', null, chain_id, null, null, null, null, null from summed, unnest(chains) chain_id
  order by 1, 2, 3, 4`,
};

/** What people do with the registries, all time, from what data teams are given. Nobody is to wait for it. */
export const readInsights = async (database: Database): Promise<InsightRows> => {
  const rows = await database.read("background", STATEMENT, {});
  const of = (kind: Row["kind"]) => rows.filter((row) => row.kind === kind);
  const readActivity = ({ subject, chainId, type, made, changed, revoked }: Row): Activity => ({
    start: String(subject),
    chainId: Number(chainId),
    type: String(type),
    made: Number(made),
    changed: Number(changed),
    revoked: Number(revoked),
  });
  return {
    days: of("day").map(readActivity),
    weeks: of("week").map(readActivity),
    contracts: of("contract")
      .map(({ subject, chainId, delegations, made }) => ({
        contract: String(subject),
        chainId: Number(chainId),
        delegations: Number(delegations),
        made: Number(made),
      }))
      .toSorted((a, b) => b.delegations - a.delegations || b.made - a.made),
    summedChains: of("chain").map(({ chainId }) => Number(chainId)),
  };
};
