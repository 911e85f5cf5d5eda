import pg from "pg";
import { ANALYTICS_VERSION, type Definition, defineAnalytics } from "./definitions.ts";
import { STORED } from "./stored.ts";

// The schema "analytics", which all indexers of a database keep together.

type Queries = Pick<pg.Client, "query">;

/** One key for all indexers. */
const LOCK = 0x616e_616c;

/** What Postgres says to a view that would change its columns, and to a function that would change its result or names. */
const CANNOT_REPLACE = ["42P16", "42P13"];

const LOCK_NOT_AVAILABLE = "55P03";

const describe = (shards: readonly string[]) =>
  `Delegations for data teams. Made and kept by the indexer: version ${ANALYTICS_VERSION}, of the shards ${shards.join(", ") || "none"}.`;

/**
 * Brings the schema up to date, in the transaction that it is called in, unless a newer version keeps it.
 * Whoever reads it for long comes first: then it is left for the next time.
 */
export const updateAnalytics = async (client: Queries): Promise<void> => {
  if (await isCurrent(client)) return;
  await client.query("savepoint updating");
  try {
    await client.query("select pg_advisory_xact_lock($1)", [LOCK]);
    // Another indexer may have done it meanwhile, or a newer one something else.
    if (!(await isCurrent(client))) await replaceAnalytics(client);
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || error.code !== LOCK_NOT_AVAILABLE) throw error;
    await client.query("rollback to savepoint updating");
  }
};

/**
 * Makes the schema anew, in the transaction that it is called in, also in place of a newer version's: for
 * when that one's views cannot stay, because the tables under them have other columns.
 */
export const remakeAnalytics = async (client: Queries): Promise<void> => {
  await client.query("select pg_advisory_xact_lock($1)", [LOCK]);
  await replaceAnalytics(client);
};

/** Whether there is nothing to do: the shards, the version and all views are there, or a newer version is. */
const isCurrent = async (client: Queries): Promise<boolean> => {
  const shards = await findShards(client);
  const views = defineAnalytics(shards).flatMap(({ kind, name }) => (kind === "view" ? name : []));
  const { rows } = await client.query<{ comment: string | null; complete: boolean }>(
    `select obj_description(to_regnamespace('analytics'), 'pg_namespace') as comment,
       not exists (select from unnest($1::text[]) name where to_regclass(name) is null) as complete`,
    [views],
  );
  const comment = rows[0]?.comment ?? "";
  const version = Number(/version (\d+)/.exec(comment)?.[1] ?? 0);
  return version > ANALYTICS_VERSION || (comment === describe(shards) && rows[0]?.complete === true);
};

/** Replaces views and functions in place, so that whatever was granted on them, or built on them, stays. */
const replaceAnalytics = async (client: Queries): Promise<void> => {
  const shards = await findShards(client);
  await client.query("create schema if not exists analytics");
  for (const definition of defineAnalytics(shards)) {
    await replace(client, definition);
    await client.query(definition.comments.join(";\n"));
  }
  await client.query(`comment on schema analytics is ${pg.escapeLiteral(describe(shards))}`);
};

const replace = async (client: Queries, { create, drop }: Definition): Promise<void> => {
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

/** The shards whose views have all that is needed, by their names. */
const findShards = async (client: Queries): Promise<string[]> => {
  const needed = Object.entries(STORED).flatMap(([table, columns]) =>
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
