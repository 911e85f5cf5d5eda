import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Logger } from "pino";
import { describeError } from "../stack/program.ts";

// The schema "service": the API's own tables, as opposed to the index.

const DIRECTORY = join(import.meta.dirname, "migrations");
/** One key for all who migrate. */
const LOCK = 0x6d69_6772;
const CONNECT_TIMEOUT_MS = 1_300;
const STATEMENT_TIMEOUT_MS = 60_000;
const RETRY_MS = 2_000;

/** "if not exists" would not do: it asks for the right to create one, also where there is one. */
const CREATE_SCHEMA = `
  do $$ begin if to_regnamespace('service') is null then create schema service; end if; end $$;
  create table if not exists service.migration (
    name text primary key,
    applied_at timestamptz not null default now()
  );
  comment on table service.migration is 'The changes of this schema that have been applied.';
  comment on column service.migration.name is 'The file in api/migrations/.';
  comment on column service.migration.applied_at is 'When it was applied.'`;

/**
 * Applies what is new of the migrations, each once, whoever else is at it. Where nothing is new it
 * only reads: whoever starts the API need not be allowed to create anything.
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
    if ((await findMissing(client)).length === 0) return;

    await client.query("begin");
    await client.query("select pg_advisory_xact_lock($1)", [LOCK]);
    await client.query(CREATE_SCHEMA);
    for (const name of await findMissing(client)) {
      await client.query(readFileSync(join(DIRECTORY, name), "utf8"));
      await client.query("insert into service.migration (name) values ($1)", [name]);
    }
    await client.query("commit");
  } finally {
    client.end().catch(() => {});
  }
};

/** Migrates; if that fails, as while the database is out of reach, goes on trying until the signal is aborted. */
export const keepMigrating = async (databaseUrl: string, signal: AbortSignal, log: Logger): Promise<void> => {
  const attempt = async (lastReason = ""): Promise<string | null> => {
    try {
      await migrate(databaseUrl);
      return null;
    } catch (error) {
      const reason = describeError(error);
      if (reason !== lastReason)
        log.error(`API keys cannot be used, the schema "service" is not up to date: ${reason}`);
      return reason;
    }
  };
  const goOn = async (firstReason: string | null) => {
    for (let reason = firstReason; reason !== null && !signal.aborted; ) {
      await sleep(RETRY_MS, undefined, { signal, ref: false }).catch(() => {});
      if (!signal.aborted) reason = await attempt(reason);
    }
  };
  goOn(await attempt());
};

const findMissing = async (client: pg.Client): Promise<string[]> => {
  const { rows } = await client.query("select to_regclass('service.migration') is not null as exists");
  const applied = rows[0]?.exists ? await client.query("select name from service.migration") : { rows: [] };
  const names = new Set(applied.rows.map(({ name }) => name));
  return readdirSync(DIRECTORY)
    .filter((name) => name.endsWith(".sql") && !names.has(name))
    .sort();
};
