import pg from "pg";
import { deriveScramVerifier } from "./scram-verifier.ts";
import type { Role, RolesSettings } from "./settings.ts";

const CONNECT_TIMEOUT_MS = 10_000;
/** Statements that wait for a lock on a table in use block every later query of it. */
const SET_LOCK_TIMEOUT = "set local lock_timeout = '2s'";
const LOCK_NOT_AVAILABLE = "55P03";

/** Schemas that indexers create. */
const INDEXER_SCHEMAS = ["indexer", "ponder_sync", "analytics"];
const API_SCHEMA = "service";

const quote = pg.escapeIdentifier;

/**
 * Creates the roles, or updates them: new passwords, new shards. Transfers the ownership of objects that another
 * role has created. Runs in one transaction.
 * @returns the number of transferred objects
 */
export const createRoles = async (databaseUrl: string, settings: RolesSettings): Promise<{ transferred: number }> => {
  const { shards, indexer, api, analyst } = settings;
  const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("begin");
    await client.query(SET_LOCK_TIMEOUT);
    const isSuperuser = await readIsSuperuser(client);
    for (const role of [indexer, api, analyst]) await createRole(client, role, isSuperuser);
    await limitAnalyst(client, settings, isSuperuser);
    await grantDatabase(client, settings);

    const indexerSchemas = [...INDEXER_SCHEMAS, ...shards];
    for (const schema of indexerSchemas) await createSchema(client, schema, indexer.name);
    await createSchema(client, API_SCHEMA, api.name);
    const indexes = shards.map((shard) => `${shard}_[0-9a-f]{10}`);
    const transferred =
      (await transferOwnership(client, [...indexerSchemas, ...indexes], indexer.name)) +
      (await transferOwnership(client, [API_SCHEMA], api.name));

    for (const schema of ["indexer", ...shards]) await grantReading(client, schema, indexer.name, api.name);
    for (const reader of [api, analyst]) await grantReading(client, "analytics", indexer.name, reader.name);
    await client.query("commit");
    return { transferred };
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || error.code !== LOCK_NOT_AVAILABLE) throw error;
    throw new Error("The tables are in use. Stop the indexers and APIs of this database first; nothing was changed.", {
      cause: error,
    });
  } finally {
    await client.end().catch(() => {});
  }
};

const readIsSuperuser = async (client: pg.Client): Promise<boolean> => {
  const { rows } = await client.query<{ rolsuper: boolean }>(
    "select rolsuper from pg_roles where rolname = current_user",
  );
  return rows[0]?.rolsuper === true;
};

const createRole = async (client: pg.Client, { name, password }: Role, isSuperuser: boolean): Promise<void> => {
  const { rows } = await client.query<{ rolsuper: boolean }>("select rolsuper from pg_roles where rolname = $1", [
    name,
  ]);
  if (rows[0]?.rolsuper) throw new Error(`The role ${name} is a superuser, which has every right. Name another role.`);
  if (!rows[0]) await client.query(`create role ${quote(name)}`);
  await client.query(`alter role ${quote(name)} login password ${pg.escapeLiteral(deriveScramVerifier(password))}`);
  // Without superuser rights, only a member of a role can transfer ownership to it.
  if (!isSuperuser) await client.query(`grant ${quote(name)} to current_user`);
};

/** Maximum sessions of the analyst's role, unless the role has a limit. */
const ANALYST_CONNECTIONS = 10;

/**
 * Settings of the analyst's role, unless it has others. A long statement can block a reorg, and with it all answers: an
 * analyst who needs one raises the timeout, or uses a replica.
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

const limitAnalyst = async (
  client: pg.Client,
  { indexer, analyst }: RolesSettings,
  isSuperuser: boolean,
): Promise<void> => {
  const name = quote(analyst.name);
  const { rows } = await client.query<{ connections: number; settings: string[] | null }>(
    "select rolconnlimit as connections, rolconfig as settings from pg_roles where rolname = $1",
    [analyst.name],
  );
  if (rows[0]?.connections === -1) await client.query(`alter role ${name} connection limit ${ANALYST_CONNECTIONS}`);
  for (const [setting, value] of Object.entries({ ...ANALYST_SETTINGS, ...(isSuperuser && SUPERUSER_SETTINGS) })) {
    if (rows[0]?.settings?.some((own) => own.startsWith(`${setting}=`))) continue;
    await client.query(`alter role ${name} set ${setting} = ${pg.escapeLiteral(value)}`);
  }
  // Members of a role may end its sessions: the indexer ends those that would stop it.
  await client.query(`grant ${name} to ${quote(indexer.name)}`);
  if (!isSuperuser) return;
  // Ponder takes an advisory lock when it starts.
  await client.query(`do $$ declare open regprocedure; begin
    for open in select oid from pg_proc where pronamespace = 'pg_catalog'::regnamespace and proname ~ '${OPEN_FUNCTIONS}' loop
      execute format('revoke execute on function %s from public', open);
      execute format('grant execute on function %s to ${quote(indexer.name)}', open);
    end loop;
  end $$`);
};

const grantDatabase = async (client: pg.Client, { indexer, api, analyst }: RolesSettings): Promise<void> => {
  const { rows } = await client.query<{ name: string }>("select current_database() as name");
  const database = quote(rows[0]?.name ?? "");
  await client.query(
    `grant connect on database ${database} to ${[indexer, api, analyst].map(({ name }) => quote(name))}`,
  );
  // Temporary tables of other roles could fill the disk.
  await client.query(`revoke temporary on database ${database} from public`);
  // The indexer creates a schema per index, and temporary tables while it writes.
  await client.query(`grant create, temporary on database ${database} to ${quote(indexer.name)}`);
  await client.query(`revoke create on database ${database} from ${quote(api.name)}, ${quote(analyst.name)}`);
};

const createSchema = async (client: pg.Client, schema: string, owner: string): Promise<void> => {
  await client.query(`create schema if not exists ${quote(schema)} authorization ${quote(owner)}`);
};

/** Grants read access to all current and future objects of a schema. */
const grantReading = async (client: pg.Client, schema: string, owner: string, reader: string): Promise<void> => {
  const [of, to] = [quote(schema), quote(reader)];
  const byDefault = `alter default privileges for role ${quote(owner)} in schema ${of}`;
  await client.query(`grant usage on schema ${of} to ${to}`);
  await client.query(`grant select on all tables in schema ${of} to ${to}`);
  await client.query(`${byDefault} grant select on tables to ${to}`);
  await client.query(`grant execute on all routines in schema ${of} to ${to}`);
  await client.query(`${byDefault} grant execute on routines to ${to}`);
};

/**
 * Selects objects in the matching schemas that another role owns. A sequence, an index and a row type follow
 * their table; an array type follows its enum.
 */
const SELECT_FOREIGN_OBJECTS = `
  with schema as (select oid, nspname, nspowner from pg_namespace where nspname ~ $1),
  thing (kind, name, owner) as (
    select 'schema', format('%I', nspname), nspowner from schema
    union all
    select case relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end,
      format('%I.%I', nspname, relname), relowner
    from pg_class join schema on schema.oid = relnamespace
    where relkind in ('r', 'p', 'v', 'm', 'f') or relkind = 'S' and not exists (
      select from pg_depend where objid = pg_class.oid and classid = 'pg_class'::regclass and deptype in ('a', 'i'))
    union all
    select 'routine', pg_proc.oid::regprocedure::text, proowner from pg_proc join schema on schema.oid = pronamespace
    union all
    select 'type', format('%I.%I', nspname, typname), typowner
    from pg_type join schema on schema.oid = typnamespace left join pg_class on pg_class.oid = typrelid
    where (typrelid = 0 or relkind = 'c') and typelem = 0
  )
  select kind, name from thing where owner <> (select oid from pg_roles where rolname = $2)
  order by kind <> 'schema'`;

const transferOwnership = async (client: pg.Client, schemas: readonly string[], owner: string): Promise<number> => {
  const { rows } = await client.query<{ kind: string; name: string }>(SELECT_FOREIGN_OBJECTS, [
    `^(${schemas.join("|")})$`,
    owner,
  ]);
  for (const { kind, name } of rows) await client.query(`alter ${kind} ${name} owner to ${quote(owner)}`);
  return rows.length;
};
