import pg from "pg";
import { takeLock } from "../shards/locks.ts";
import type { Queryable } from "../shards/queryable.ts";
import { ANALYTICS_VERSION, type Definition, defineAnalytics } from "./definitions.ts";
import { SHARD_TABLES } from "./shard-tables.ts";
import { CHAINS, VIEWS } from "./views.ts";

// All indexers of a database maintain the schema "analytics" together.

/** The lock of the schema, shared by all indexers. */
export const ANALYTICS_LOCK = "analytics";

/** Postgres's error codes for a view that would change its columns, and a function that would change its result or names. */
const CANNOT_REPLACE = ["42P16", "42P13"];

const LOCK_NOT_AVAILABLE = "55P03";

/** The comment on the schema, which records its version and shards. */
const describeSchema = (shards: readonly string[]) =>
  `Delegations for data teams. Maintained by the indexer: version ${ANALYTICS_VERSION}, of the shards ${shards.join(", ") || "none"}.`;

/**
 * Brings the schema up to date within the caller's transaction, unless a newer version maintains it. Does nothing while
 * a long read holds a lock on it; the next call tries again.
 */
export const updateAnalytics = async (client: Queryable): Promise<void> => {
  if (await isCurrent(client)) return;
  await client.query("savepoint updating");
  try {
    await takeLock(client, ANALYTICS_LOCK);
    // Another indexer may have updated it meanwhile, perhaps to a newer version.
    if (!(await isCurrent(client))) await replaceAnalytics(client);
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || error.code !== LOCK_NOT_AVAILABLE) throw error;
    await client.query("rollback to savepoint updating");
  }
};

/**
 * Blocks readers of the schema until the caller's transaction ends, after those in flight have finished. This allows
 * replacing the views below without a deadlock: a reader locks a view before the views that it selects from, and so does
 * this. Resetting an option that is not set locks a view and nothing below it.
 */
export const blockReaders = async (client: Queryable): Promise<void> => {
  for (const { name } of [...VIEWS.toReversed(), CHAINS]) {
    await client.query(`alter view if exists ${name} reset (security_barrier)`);
  }
};

/**
 * Rebuilds the schema within the caller's transaction, even if a newer version maintains it: for tables with other
 * columns, over which the newer version's views cannot stay.
 */
export const rebuildAnalytics = async (client: Queryable): Promise<void> => {
  await takeLock(client, ANALYTICS_LOCK);
  await replaceAnalytics(client);
};

/** True if the schema has the current version, shards and views, or a newer version. */
const isCurrent = async (client: Queryable): Promise<boolean> => {
  const shards = await findShards(client);
  const views = defineAnalytics(shards).flatMap(({ kind, name }) => (kind === "view" ? name : []));
  const { rows } = await client.query<{ comment: string | null; complete: boolean }>(
    `select obj_description(to_regnamespace('analytics'), 'pg_namespace') as comment,
       not exists (select from unnest($1::text[]) name where to_regclass(name) is null) as complete`,
    [views],
  );
  const comment = rows[0]?.comment ?? "";
  const version = Number(/version (\d+)/.exec(comment)?.[1] ?? 0);
  return version > ANALYTICS_VERSION || (comment === describeSchema(shards) && rows[0]?.complete === true);
};

/** Replaces views and functions in place, which keeps their grants and the views that others have built on them. */
const replaceAnalytics = async (client: Queryable): Promise<void> => {
  await blockReaders(client);
  const shards = await findShards(client);
  await client.query("create schema if not exists analytics");
  for (const definition of defineAnalytics(shards)) {
    await replaceDefinition(client, definition);
    await client.query(definition.comments.join(";\n"));
  }
  await client.query(`comment on schema analytics is ${pg.escapeLiteral(describeSchema(shards))}`);
};

const replaceDefinition = async (client: Queryable, { create, drop }: Definition): Promise<void> => {
  await client.query("savepoint replacing");
  try {
    await client.query(create);
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || !CANNOT_REPLACE.includes(error.code ?? "")) throw error;
    await client.query("rollback to savepoint replacing");
    await client.query(drop);
    await client.query(create);
  }
};

/** Finds the shards whose views have all needed columns. */
const findShards = async (client: Queryable): Promise<string[]> => {
  const needed = Object.entries(SHARD_TABLES).flatMap(([table, columns]) =>
    Object.entries(columns).map(([column, type]) => ({ table, column, type })),
  );
  const { rows } = await client.query<{ name: string }>(
    `select shard.name from indexer.shard
     where not exists (
       select from unnest($1::text[], $2::text[], $3::text[]) as needed (relation, name, type)
       where not exists (
         select from pg_attribute
         where attrelid = to_regclass(format('%I.%I', shard.name, needed.relation))
           and attname = needed.name and format_type(atttypid, atttypmod) = needed.type
       )
     )
     order by shard.name`,
    [needed.map(({ table }) => table), needed.map(({ column }) => column), needed.map(({ type }) => type)],
  );
  return rows.map(({ name }) => name);
};
