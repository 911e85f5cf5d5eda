import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { describe, expect, onTestFinished, test } from "vitest";
import { BatchLoad } from "../../../api/database/batch-queue.ts";
import { Database } from "../../../api/database/database.ts";
import { migrate } from "../../../api/database/migrate.ts";
import { generateKey } from "../../../api/keys/api-key.ts";
import { KeyDirectory } from "../../../api/keys/key-directory.ts";
import { type Api, CHECK, createSampleDatabase, FRESH_FOR_A_DAY, startTestApi } from "../../support/api.ts";
import { runKeys } from "../../support/commands.ts";
import { addKey, createMigratedDatabase, createRole } from "../../support/keys.ts";
import { connectClient, createDatabase, waitUntil } from "../../support/setup.ts";
import { createDatabaseRelay } from "../../support/tcp-relay.ts";

const FOLDER = join(import.meta.dirname, "../../../api/database/migrations");
const MIGRATIONS = readdirSync(FOLDER).sort();

const ask = (api: Api, key: string) => api.get(CHECK, { headers: { "X-API-KEY": key } });

describe("migrate()", () => {
  test("creates the schema once when ten processes start concurrently", async () => {
    const url = await createDatabase();
    await Promise.all(Array.from({ length: 10 }, () => migrate(url)));
    const database = await connectClient(url);
    const { rows } = await database.query("select name, applied_at from service.migration order by name");
    expect(rows.map(({ name }) => name)).toEqual(MIGRATIONS);
    await addKey(database);

    await migrate(url);
    expect((await database.query("select name, applied_at from service.migration order by name")).rows).toEqual(rows);
    expect((await database.query("select 1 from service.api_key")).rows).toHaveLength(1);
  });

  test("leaves nothing behind when a migration fails", async () => {
    const url = await createDatabase();
    const database = await connectClient(url);
    // The second table of the first migration.
    await database.query("create schema service; create table service.api_key_usage ()");
    await expect(migrate(url)).rejects.toThrow('relation "api_key_usage" already exists');
    const { rows } = await database.query("select tablename from pg_tables where schemaname = 'service'");
    expect(rows).toEqual([{ tablename: "api_key_usage" }]);

    await database.query("drop table service.api_key_usage");
    await migrate(url);
    await addKey(database);
  });

  test("gives the same tables from every earlier version, and keeps its keys", async () => {
    const columns = `select table_name, column_name, data_type, column_default, is_nullable from information_schema.columns
      where table_schema = 'service' order by table_name, column_name`;
    const [current, ...earlier] = await Promise.all(
      Array.from(MIGRATIONS, async (_, count) => {
        const url = await createDatabase();
        const database = await connectClient(url);
        const applied = count === 0 ? MIGRATIONS : MIGRATIONS.slice(0, count);
        await database.query(
          "create schema service; create table service.migration (name text primary key, applied_at timestamptz not null default now())",
        );
        for (const name of applied) {
          await database.query(readFileSync(join(FOLDER, name), "utf8"));
          await database.query("insert into service.migration (name) values ($1)", [name]);
        }
        const { id } = await addKey(database);
        await migrate(url);
        expect((await database.query("select id from service.api_key")).rows).toEqual([{ id }]);
        return (await database.query(columns)).rows;
      }),
    );
    for (const upgraded of earlier) expect(upgraded).toEqual(current);
  });

  test("refuses a schema that a newer version has changed, and so does the start of the API", async () => {
    const databaseUrl = await createMigratedDatabase();
    const database = await connectClient(databaseUrl);
    await database.query("insert into service.migration (name) values ('9998-later.sql'), ('9999-last.sql')");
    const refusal =
      'The schema "service" was changed by a newer version, which has 9998-later.sql and 9999-last.sql. Start that version.';
    await expect(migrate(databaseUrl)).rejects.toThrow(refusal);
    await expect(startTestApi({ databaseUrl })).rejects.toThrow(refusal);
    expect(await runKeys(["list"], databaseUrl)).toMatchObject({ code: 1, stderr: expect.stringContaining(refusal) });
  });

  test("comments every table and column", async () => {
    const url = await createDatabase();
    await migrate(url);
    const database = await connectClient(url);
    const { rows } = await database.query(`
      select relname || coalesce('.' || attname, '') as name
      from pg_class left join pg_attribute on attrelid = pg_class.oid and attnum >= 0 and not attisdropped
      where relnamespace = 'service'::regnamespace and relkind = 'r' and col_description(pg_class.oid, attnum) is null
      union all
      select relname from pg_class
      where relnamespace = 'service'::regnamespace and relkind = 'r' and obj_description(pg_class.oid, 'pg_class') is null
      order by 1`);
    expect(rows.map(({ name }) => name)).toEqual([]);
  });
});

describe("a role without create rights", () => {
  test("can migrate a database that is up to date", async () => {
    const databaseUrl = await createDatabase();
    const { url, role } = await createRole(databaseUrl);
    await migrate(databaseUrl);
    const owner = await connectClient(databaseUrl);
    await owner.query(`grant usage on schema service to ${role}; grant select on service.migration to ${role}`);
    await migrate(url);
    await Promise.all([migrate(url), migrate(url)]);
  });

  test("gets Postgres' error when a migration is missing", async () => {
    const databaseUrl = await createDatabase();
    const { url, role } = await createRole(databaseUrl);
    await expect(migrate(url)).rejects.toThrow(/^permission denied for database/);
    const owner = await connectClient(databaseUrl);
    expect((await owner.query("select to_regnamespace('service') as schema")).rows).toEqual([{ schema: null }]);

    // A migration that the owner has not applied.
    await migrate(databaseUrl);
    await expect(migrate(url)).rejects.toThrow("permission denied for schema service");
    await owner.query(`grant usage on schema service to ${role}; grant select on service.migration to ${role}`);
    await owner.query("delete from service.migration where name = $1", [MIGRATIONS.at(-1)]);
    await expect(migrate(url)).rejects.toThrow("permission denied for schema service");
  });

  test("gets an error from find() until it may read keys", async () => {
    const databaseUrl = await createDatabase();
    const { url, role } = await createRole(databaseUrl);
    await migrate(databaseUrl);
    const database = new Database(url, pino({ enabled: false }));
    onTestFinished(() => database.close());
    const directory = new KeyDirectory(database, new BatchLoad());
    const owner = await connectClient(databaseUrl);
    const { key } = await addKey(owner);
    await expect(directory.find(key)).rejects.toMatchObject({
      problem: "database-unavailable",
      message: expect.stringContaining("API keys cannot be checked yet"),
    });
    await owner.query(
      `grant usage on schema service to ${role}; grant select on all tables in schema service to ${role}`,
    );
    expect(await directory.find(key)).toMatchObject({ isKnown: true });
  });

  test("serves requests without keys before the schema exists, and with keys after, without a restart", async () => {
    const databaseUrl = await createSampleDatabase();
    const { url, role } = await createRole(databaseUrl);
    const owner = await connectClient(databaseUrl);
    await owner.query(`grant pg_read_all_data to ${role}`);
    const api = await startTestApi({ databaseUrl: url, env: FRESH_FOR_A_DAY });

    expect((await api.get(CHECK)).status).toBe(200);
    const refusal = await ask(api, generateKey());
    expect(refusal.status).toBe(503);
    expect(refusal.headers.get("Retry-After")).toMatch(/^\d+$/);
    const complaints = () => api.output().match(/API keys cannot be used.*permission denied for database/g);
    expect(complaints()).toHaveLength(1);

    await migrate(databaseUrl);
    await owner.query(`grant insert, update, delete on service.api_key_usage, service.usage_writer to ${role}`);
    const { key, id } = await addKey(owner);
    expect((await ask(api, key)).status).toBe(200);
    expect((await ask(api, generateKey())).status).toBe(401);
    await api.stop();
    const { rows } = await owner.query("select requests from service.api_key_usage where api_key_id = $1", [id]);
    expect(rows).toEqual([{ requests: "1" }]);
  });
});

test("an API that starts before Postgres creates the schema when it is up, and then accepts keys", async () => {
  const databaseUrl = await createDatabase();
  const relay = await createDatabaseRelay(databaseUrl);
  const api = await startTestApi({ databaseUrl: relay.url });
  expect((await ask(api, generateKey())).status).toBe(503);
  expect(api.output()).toContain("API keys cannot be used");
  expect(api.output()).not.toContain(new URL(databaseUrl).password);

  await relay.open();
  await waitUntil(
    "an unknown key returns 401",
    async () => (await ask(api, generateKey())).status,
    10,
    (status) => status === 401,
  );
  const { key } = await addKey(await connectClient(databaseUrl));
  // Nothing is indexed here, but the key is accepted and lifts the limit.
  const readRefusal = async () => {
    const response = await ask(api, key);
    const { type } = (await response.json()) as { type: string };
    return { type, limit: response.headers.get("RateLimit") };
  };
  const isRead = ({ type }: { type: string }) => type === "/docs#problem-not-indexed";
  expect(await waitUntil("the index is looked for", readRefusal, 10, isRead)).toMatchObject({ limit: null });
  expect((await api.get(CHECK)).headers.get("RateLimit")).not.toBeNull();
});
