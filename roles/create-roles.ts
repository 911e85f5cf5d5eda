import pg from "pg";
import { scramVerifier } from "./scram-verifier.ts";
import type { Role, RolesSettings } from "./settings.ts";

const CONNECT_TIMEOUT_MS = 10_000;
/** One key for all who do this. */
const LOCK = 0x726f_6c65;
/** Others use what is handed over: whoever waits for them keeps all others waiting. */
const GIVE_WAY = "set local lock_timeout = '2s'";
const LOCK_NOT_AVAILABLE = "55P03";

/** Schemas that indexers make. */
const INDEXER_SCHEMAS = ["indexer", "ponder_sync", "analytics"];
/** The API's own. */
const API_SCHEMA = "service";

const quote = pg.escapeIdentifier;

/**
 * Makes the roles, or makes them again what they should be: new passwords, new shards. What another
 * role has made of an installation so far is handed over. All of it happens, or nothing.
 * @returns how many things were handed over
 */
export const createRoles = async (databaseUrl: string, settings: RolesSettings): Promise<{ adopted: number }> => {
  const { shards, indexer, api, analyst } = settings;
  const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.query("begin");
    await client.query("select pg_advisory_xact_lock($1)", [LOCK]);
    await client.query(GIVE_WAY);
    for (const role of [indexer, api, analyst])
      await createRole(client, role, role === analyst ? ANALYST_DEFAULTS : []);
    await grantDatabase(client, settings);

    const own = [...INDEXER_SCHEMAS, ...shards];
    for (const schema of own) await createSchema(client, schema, indexer.name);
    await createSchema(client, API_SCHEMA, api.name);
    const indexes = shards.map((shard) => `${shard}_[0-9a-f]{10}`);
    const adopted =
      (await handOver(client, [...own, ...indexes], indexer.name)) + (await handOver(client, [API_SCHEMA], api.name));

    for (const schema of ["indexer", ...shards]) await grantReading(client, schema, indexer.name, api.name);
    for (const reader of [api, analyst]) await grantReading(client, "analytics", indexer.name, reader.name);
    await client.query("commit");
    return { adopted };
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || error.code !== LOCK_NOT_AVAILABLE) throw error;
    throw new Error("The tables are in use. End the indexers and APIs of this database first; nothing was changed.", {
      cause: error,
    });
  } finally {
    await client.end().catch(() => {});
  }
};

/**
 * A statement that runs for long can hold up a reorg, and with it all answers: an analyst who needs
 * one says so, or asks a replica. What is set here is where a new role starts from; it may be set otherwise.
 */
const ANALYST_DEFAULTS = [
  "default_transaction_read_only = on",
  "statement_timeout = '1min'",
  "idle_in_transaction_session_timeout = '1min'",
];

const createRole = async (client: pg.Client, { name, password }: Role, defaults: readonly string[]): Promise<void> => {
  const { rows } = await client.query<{ rolsuper: boolean }>("select rolsuper from pg_roles where rolname = $1", [
    name,
  ]);
  if (rows[0]?.rolsuper)
    throw new Error(`The role ${name} is a superuser, whom nothing can be denied. Name another one.`);
  if (!rows[0]) {
    await client.query(`create role ${quote(name)}`);
    for (const setting of defaults) await client.query(`alter role ${quote(name)} set ${setting}`);
  }
  await client.query(`alter role ${quote(name)} login password ${pg.escapeLiteral(scramVerifier(password))}`);
  // Who is no superuser gives only to a role that it belongs to.
  await client.query(`do $$ begin
    if not (select rolsuper from pg_roles where rolname = current_user) then grant ${quote(name)} to current_user; end if;
  end $$`);
};

const grantDatabase = async (client: pg.Client, { indexer, api, analyst }: RolesSettings): Promise<void> => {
  const { rows } = await client.query<{ name: string }>("select current_database() as name");
  const database = quote(rows[0]?.name ?? "");
  await client.query(
    `grant connect on database ${database} to ${[indexer, api, analyst].map(({ name }) => quote(name))}`,
  );
  // A schema for each index, and tables for a moment while it is written.
  await client.query(`grant create, temporary on database ${database} to ${quote(indexer.name)}`);
  await client.query(`revoke create on database ${database} from ${quote(api.name)}, ${quote(analyst.name)}`);
};

const createSchema = async (client: pg.Client, schema: string, owner: string): Promise<void> => {
  await client.query(`create schema if not exists ${quote(schema)} authorization ${quote(owner)}`);
};

/** Lets a role read what is in a schema, and what its owner will make there. */
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
 * What is not its owner's in schemas of such names. A sequence, an index and a row type go with
 * their table; of an enum, the array type goes with it.
 */
const MISPLACED = `
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

const handOver = async (client: pg.Client, schemas: readonly string[], owner: string): Promise<number> => {
  const { rows } = await client.query<{ kind: string; name: string }>(MISPLACED, [`^(${schemas.join("|")})$`, owner]);
  for (const { kind, name } of rows) await client.query(`alter ${kind} ${name} owner to ${quote(owner)}`);
  return rows.length;
};
