import type { Queryable } from "./connection.ts";

/** Roles that the indexer's role is a member of: `npm run roles` makes it a member of the analysts' role. */
const ANALYSTS = `
  select analyst.oid, split_part(setting, '=', 2) as timeout
  from pg_auth_members membership
  join pg_roles analyst on analyst.oid = membership.roleid
  join pg_roles indexer on indexer.oid = membership.member and indexer.rolname = current_user
  cross join unnest(analyst.rolconfig) setting
  where setting like 'statement_timeout=%'`;

/**
 * Ends sessions of analysts that could stop an indexer: those whose transaction lasts longer than the statement_timeout
 * of their role, and those with an advisory lock, which Ponder takes when it starts. A session can turn its own timeouts
 * off, and its locks on tables block reorgs.
 */
export const endLongReaders = async (client: Queryable): Promise<void> => {
  await client.query(
    `select pg_terminate_backend(pid)
     from (${ANALYSTS}) analyst
     join pg_stat_activity session on usesysid = analyst.oid and datname = current_database()
     cross join lateral (select (timeout || case when timeout ~ '^\\d+$' then 'ms' else '' end)::interval) as maximum (age)
     where age > interval '0' and xact_start < clock_timestamp() - age
       or exists (select from pg_locks where pg_locks.pid = session.pid and locktype = 'advisory')`,
  );
};
