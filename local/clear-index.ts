import pg from "pg";
import { describeError } from "../process/program.ts";

/**
 * Statements that drop all objects of this role but the schemas of a shard, of the indexers and of analysts: other roles
 * have grants on these.
 */
const SELECT_DROPS = `
  with schema as (
    select oid, nspname from pg_namespace where nspowner = (select oid from pg_roles where rolname = current_user)
  ), thing (kind, name) as (
    select 'schema', format('%I', nspname) from schema where nspname ~ '_[0-9a-f]{10}$'
    union all
    select case relkind when 'v' then 'view' else 'table' end, format('%I.%I', nspname, relname)
    from pg_class join schema on schema.oid = relnamespace where relkind in ('r', 'p', 'v')
    union all
    select 'routine', pg_proc.oid::regprocedure::text from pg_proc join schema on schema.oid = pronamespace
  )
  select format('drop %s if exists %s cascade', kind, name) as drop from thing`;

/** Drops every index of a role and Ponder's cached blocks: restarted local chains have different blocks. */
export const clearIndex = async (databaseUrl: string): Promise<void> => {
  const client = new pg.Client(databaseUrl);
  try {
    await client.connect();
    const { rows } = await client.query<{ drop: string }>(SELECT_DROPS);
    for (const { drop } of rows) await client.query(drop);
  } catch (cause) {
    throw new Error(
      "Cannot clear the sandbox's database. If a file .env sets up real networks, remove it to use the sandbox.\n" +
        `  because: ${describeError(cause)}`,
    );
  } finally {
    await client.end().catch(() => {});
  }
};
