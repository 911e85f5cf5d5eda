import pg from "pg";
import { type Administrator, asAdministrator, readDatabase, runTransaction } from "./administrator.ts";
import { closeDatabases } from "./close-databases.ts";
import { createRole } from "./create-role.ts";
import { grantReading } from "./grant-reading.ts";
import { limitAnalyst } from "./limit-analyst.ts";
import type { RolesSettings } from "./settings.ts";

/** Schemas that indexers create. */
const INDEXER_SCHEMAS = ["indexer", "ponder_sync", "analytics"];
const API_SCHEMA = "service";

const quote = pg.escapeIdentifier;

/**
 * Creates the roles, or updates them: new passwords, new shards. Transfers the ownership of objects that another
 * role has created. Runs in one transaction, and closes other databases of the server after it.
 * @returns the number of transferred objects, and other databases that stay open to every role
 */
export const createRoles = (
  databaseUrl: string,
  settings: RolesSettings,
): Promise<{ transferred: number; openDatabases: string[] }> =>
  asAdministrator(databaseUrl, async (administrator) => {
    const { client } = administrator;
    const transferred = await runTransaction(client, () => setUpRoles(administrator, settings));
    return { transferred, openDatabases: await closeDatabases(client) };
  });

/** @returns the number of transferred objects */
const setUpRoles = async (administrator: Administrator, settings: RolesSettings): Promise<number> => {
  const { client } = administrator;
  const { shards, indexer, api, analyst } = settings;
  for (const role of [indexer, api, analyst]) await createRole(administrator, role);
  await limitAnalyst(administrator, analyst.name, indexer.name);
  await grantDatabase(client, settings);

  const indexerSchemas = [...INDEXER_SCHEMAS, ...shards];
  for (const schema of indexerSchemas) await createSchema(client, schema, indexer.name);
  await createSchema(client, API_SCHEMA, api.name);
  const indexes = shards.map((shard) => `${shard}_[0-9a-f]{10}`);
  const transferred =
    (await transferOwnership(client, [...indexerSchemas, ...indexes], indexer.name)) +
    (await transferOwnership(client, [API_SCHEMA], api.name));

  for (const schema of ["indexer", ...shards]) await grantReading(client, schema, indexer.name, api.name);
  // It reads only what the API grants to all: which wallets to compare next.
  await client.query(`grant usage on schema ${quote(API_SCHEMA)} to ${quote(indexer.name)}`);
  for (const reader of [api, analyst]) await grantReading(client, "analytics", indexer.name, reader.name);
  return transferred;
};

const grantDatabase = async (client: pg.Client, { indexer, api, analyst }: RolesSettings): Promise<void> => {
  const database = await readDatabase(client);
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
