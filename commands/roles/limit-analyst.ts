import pg from "pg";
import type { Administrator } from "./administrator.ts";

const quote = pg.escapeIdentifier;

/** Maximum sessions of an analyst's role, unless the role has a limit. */
const ANALYST_CONNECTIONS = 10;

/**
 * Settings of an analyst's role, unless it has others. They spare others from an analyst's mistakes; an analyst can change
 * all of them. A long statement can block a reorg, and with it all answers, so the indexer has its own maximum.
 */
const ANALYST_SETTINGS = {
  default_transaction_read_only: "on",
  statement_timeout: "1min",
  idle_in_transaction_session_timeout: "1min",
  work_mem: "16MB",
};

/** Needs a superuser. Unlike the settings above, a session cannot change it. */
const SUPERUSER_SETTINGS = { temp_file_limit: "1GB" };

/** Functions that every role may call by default: to take locks of any name, and to store large objects. */
const OPEN_FUNCTIONS = "^(pg_(try_)?advisory_(xact_)?lock|lo_creat|lo_create$|lo_from_bytea$)";

/** Limits the sessions of an analyst's login, and lets the indexer's role end them. */
export const limitAnalyst = async (
  { client, isSuperuser }: Administrator,
  analyst: string,
  indexer: string,
): Promise<void> => {
  const name = quote(analyst);
  const { rows } = await client.query<{ connections: number; settings: string[] | null }>(
    "select rolconnlimit as connections, rolconfig as settings from pg_roles where rolname = $1",
    [analyst],
  );
  if (rows[0]?.connections === -1) await client.query(`alter role ${name} connection limit ${ANALYST_CONNECTIONS}`);
  for (const [setting, value] of Object.entries({ ...ANALYST_SETTINGS, ...(isSuperuser && SUPERUSER_SETTINGS) })) {
    if (rows[0]?.settings?.some((own) => own.startsWith(`${setting}=`))) continue;
    await client.query(`alter role ${name} set ${setting} = ${pg.escapeLiteral(value)}`);
  }
  // Members of a role may end its sessions: the indexer ends those that would stop it.
  await client.query(`grant ${name} to ${quote(indexer)}`);
  if (!isSuperuser) return;
  // Ponder takes an advisory lock when it starts.
  await client.query(`do $$ declare open regprocedure; begin
    for open in select oid from pg_proc where pronamespace = 'pg_catalog'::regnamespace and proname ~ '${OPEN_FUNCTIONS}' loop
      execute format('revoke execute on function %s from public', open);
      execute format('grant execute on function %s to ${quote(indexer)}', open);
    end loop;
  end $$`);
};
