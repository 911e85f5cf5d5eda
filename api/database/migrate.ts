import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Logger } from "pino";
import { describeError } from "../../process/program.ts";
import { CONNECT_TIMEOUT_MS } from "./pools.ts";

// Migrates the schema "service": the API's own tables, not the index.

const DIRECTORY = join(import.meta.dirname, "migrations");
const STATEMENT_TIMEOUT_MS = 60_000;
const RETRY_MS = 2_000;

/**
 * Not "create schema if not exists": it needs the privilege to create a schema even if the schema exists. Another
 * process may create both at the same time. The lock of all migrating processes is on the table: any role could take an
 * advisory lock.
 */
const CREATE_SCHEMA = `
  do $$ begin
    if to_regnamespace('service') is null then create schema service; end if;
    create table if not exists service.migration (
      name text primary key,
      applied_at timestamptz not null default now()
    );
  exception when unique_violation or duplicate_schema or duplicate_table then null; end $$;
  lock table service.migration in exclusive mode;
  comment on table service.migration is 'The changes of this schema that have been applied.';
  comment on column service.migration.name is 'The file in api/database/migrations/.';
  comment on column service.migration.applied_at is 'When it was applied.'`;

/** A newer version has changed the schema: this one cannot know how. */
class NewerSchemaError extends Error {
  constructor(unknown: readonly string[]) {
    super(
      `The schema "service" was changed by a newer version, which has ${unknown.join(" and ")}. ` +
        "Start that version. To go back, restore the backup of this schema that was made before the update.",
    );
  }
}

/**
 * Applies each new migration once, also if several processes migrate at the same time. Without a new one it
 * only reads: the API's role needs no privilege to create tables.
 */
export const migrate = async (databaseUrl: string): Promise<void> => {
  const client = new pg.Client({
    connectionString: databaseUrl,
    application_name: "api",
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: STATEMENT_TIMEOUT_MS,
  });
  client.on("error", () => {});
  try {
    await client.connect();
    if ((await findNewMigrations(client)).length === 0) return;

    await client.query("begin");
    await client.query(CREATE_SCHEMA);
    for (const name of await findNewMigrations(client)) {
      await client.query(readFileSync(join(DIRECTORY, name), "utf8"));
      await client.query("insert into service.migration (name) values ($1)", [name]);
    }
    await client.query("commit");
  } finally {
    client.end().catch(() => {});
  }
};

/**
 * Migrates. After a failure, such as a database out of reach, retries in the background until it succeeds or the signal is
 * aborted. Rejects if the schema is of a newer version; the log says so if that shows only in the background.
 */
export const keepMigrating = async (databaseUrl: string, signal: AbortSignal, log: Logger): Promise<void> => {
  const attempt = async (lastReason = ""): Promise<string | null> => {
    try {
      await migrate(databaseUrl);
      return null;
    } catch (error) {
      if (error instanceof NewerSchemaError) throw error;
      const reason = describeError(error);
      if (reason !== lastReason)
        log.error(`API keys cannot be used, the schema "service" is not up to date: ${reason}`);
      return reason;
    }
  };
  const retry = async (firstReason: string | null) => {
    for (let reason = firstReason; reason !== null && !signal.aborted; ) {
      await sleep(RETRY_MS, undefined, { signal, ref: false }).catch(() => {});
      if (!signal.aborted) reason = await attempt(reason);
    }
  };
  retry(await attempt()).catch((error) => log.error(describeError(error)));
};

const findNewMigrations = async (client: pg.Client): Promise<string[]> => {
  const { rows } = await client.query("select to_regclass('service.migration') is not null as exists");
  const applied = rows[0]?.exists ? await client.query("select name from service.migration") : { rows: [] };
  const appliedNames = new Set<string>(applied.rows.map(({ name }) => name));
  const knownNames = new Set(readdirSync(DIRECTORY).filter((name) => name.endsWith(".sql")));
  const unknown = [...appliedNames].filter((name) => !knownNames.has(name)).sort();
  if (unknown.length > 0) throw new NewerSchemaError(unknown);
  return [...knownNames].filter((name) => !appliedNames.has(name)).sort();
};
