import { desc, eq, sql } from "drizzle-orm";
import { aliasColumns } from "../database/columns.ts";
import type { Database } from "../database/database.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import { compileStatement, type Statement } from "../database/statement.ts";
import { indexTables } from "../database/tables.ts";
import type { ShardChain } from "../shards/read-shards.ts";
import type { Shards } from "../shards/shards.ts";
import type { ChangeRow } from "../wallets/wallet-json.ts";

const RECENT_DAYS = 90;
const TOP_CONTRACTS = 20;
const NEWEST_CHANGES = 10;

/** Activity on a chain in a day, or in a week that starts on that day (Monday). */
export type ActivityRow = {
  start: string;
  chainId: number;
  type: string;
  made: number;
  changed: number;
  revoked: number;
};

type ContractActivity = { chainId: number; contract: string; delegations: number; made: number };

type NewestChange = Omit<ChangeRow, "number" | "isListed">;

export type InsightRows = {
  days: ActivityRow[];
  weeks: ActivityRow[];
  contracts: ContractActivity[];
  summedChains: number[];
  newestChanges: NewestChange[];
};

type Row = {
  kind: "week" | "day" | "contract" | "chain";
  /** The start of a week, the day, or the address of a contract. */
  subject: string | null;
  chainId: string;
  type: string | null;
  made: string | null;
  changed: string | null;
  revoked: string | null;
  delegations: string | null;
};

/** Reads the summaries, and the short rest of the log after them. Skips chains without summaries, whose log is long. */
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

/** Reads the activity of all time from the analytics schema. Slow: requests must not wait for it. */
export const readInsights = async (database: Database, shards: Shards): Promise<InsightRows> => {
  const rows = await database.read("background", STATEMENT, {});
  const rowsOf = (kind: Row["kind"]) => rows.filter((row) => row.kind === kind);
  const summedChains = rowsOf("chain").map(({ chainId }) => Number(chainId));
  await shards.refreshIfOld();
  const readable = shards.chainStates().filter(({ chainId, isServed }) => isServed && summedChains.includes(chainId));
  return {
    days: rowsOf("day").map(readActivity),
    weeks: rowsOf("week").map(readActivity),
    contracts: rowsOf("contract")
      .map(({ subject, chainId, delegations, made }) => ({
        contract: String(subject),
        chainId: Number(chainId),
        delegations: Number(delegations),
        made: Number(made),
      }))
      .toSorted((a, b) => b.delegations - a.delegations || b.made - a.made),
    summedChains,
    newestChanges: await readNewestChanges(database, readable),
  };
};

const readActivity = ({ subject, chainId, type, made, changed, revoked }: Row): ActivityRow => ({
  start: String(subject),
  chainId: Number(chainId),
  type: String(type),
  made: Number(made),
  changed: Number(changed),
  revoked: Number(revoked),
});

/** Selects the newest changes of a chain, by the primary key of the log. */
export const newestChangesStatement = (database: Database, schema: string) => {
  const { delegationChange: change } = indexTables(schema);
  const { registry, type, vault, delegate, contract, tokenId, rights, amount, active, wasActive } = change;
  const { blockNumber, logIndex, ordinal, blockTimestamp, transactionHash, event } = change;
  const delegation = { registry, type, vault, delegate, contract, tokenId, rights, amount, active, wasActive };
  const query = database.db
    .select(aliasColumns({ ...delegation, blockNumber, logIndex, ordinal, blockTimestamp, transactionHash, event }))
    .from(change)
    .where(eq(change.chainId, sql.placeholder("chainId")))
    .orderBy(desc(blockNumber), desc(logIndex), desc(ordinal))
    .limit(NEWEST_CHANGES);
  return compileStatement<Omit<NewestChange, "chainId">>(`${schema} newest changes`, query);
};

const findStatement = memoizeByDatabase(newestChangesStatement);

/**
 * Reads the newest changes over all of these chains, newest first. Not from the view of all shards: with several
 * shards, Postgres would sort the whole log of a chain.
 */
const readNewestChanges = async (
  database: Database,
  chains: readonly Pick<ShardChain, "chainId" | "shard">[],
): Promise<NewestChange[]> => {
  const changes: NewestChange[] = [];
  for (const { chainId, shard } of chains) {
    const rows = await database.read("background", findStatement(database, shard), { chainId });
    changes.push(...rows.map((row) => ({ ...row, chainId })));
  }
  return changes.toSorted((a, b) => Number(b.blockTimestamp) - Number(a.blockTimestamp)).slice(0, NEWEST_CHANGES);
};
