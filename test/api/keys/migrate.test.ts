import { readdirSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { describe, expect, onTestFinished, test } from "vitest";
import { BatchLoad } from "../../../api/batch.ts";
import { Database } from "../../../api/database.ts";
import { generateKey } from "../../../api/keys/api-key.ts";
import { KeyDirectory } from "../../../api/keys/key-directory.ts";
import { migrate } from "../../../api/migrate.ts";
import { type Api, CHECK, createSampleDatabase, FRESH_FOR_A_DAY, startApi } from "../../support/api.ts";
import { createDatabaseRelay } from "../../support/database-relay.ts";
import { addKey, createRole } from "../../support/keys.ts";
import { connect, createDatabase, until } from "../../support/setup.ts";

const MIGRATIONS = readdirSync(join(import.meta.dirname, "../../../api/migrations")).sort();

const ask = (api: Api, key: string) => api.get(CHECK, { headers: { "X-API-KEY": key } });

describe("migrate()", () => {
  test("makes the schema once when ten processes start at the same moment", async () => {
    const url = await createDatabase();
    await Promise.all(Array.from({ length: 10 }, () => migrate(url)));
    const database = await connect(url);
    const { rows } = await database.query("select name, applied_at from service.migration order by name");
    expect(rows.map(({ name }) => name)).toEqual(MIGRATIONS);
    await addKey(database);

    await migrate(url);
    expect((await database.query("select name, applied_at from service.migration order by name")).rows).toEqual(rows);
    expect((await database.query("select 1 from service.api_key")).rows).toHaveLength(1);
  });

  test("leaves nothing behind when a migration fails", async () => {
    const url = await createDatabase();
    const database = await connect(url);
    // This is the second table that the first migration makes.
    await database.query("create schema service; create table service.api_key_usage ()");
    await expect(migrate(url)).rejects.toThrow('relation "api_key_usage" already exists');
    const { rows } = await database.query("select tablename from pg_tables where schemaname = 'service'");
    expect(rows).toEqual([{ tablename: "api_key_usage" }]);

    await database.query("drop table service.api_key_usage");
    await migrate(url);
    await addKey(database);
  });

  test("comments every table and column", async () => {
    const url = await createDatabase();
    await migrate(url);
    const database = await connect(url);
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

describe("a role that may not create anything", () => {
  test("can migrate a database that is up to date", async () => {
    const databaseUrl = await createDatabase();
    const { url, role } = await createRole(databaseUrl);
    await migrate(databaseUrl);
    const owner = await connect(databaseUrl);
    await owner.query(`grant usage on schema service to ${role}; grant select on service.migration to ${role}`);
    await migrate(url);
    await Promise.all([migrate(url), migrate(url)]);
  });

  test("gets the error of Postgres when a migration is missing", async () => {
    const databaseUrl = await createDatabase();
    const { url, role } = await createRole(databaseUrl);
    await expect(migrate(url)).rejects.toThrow(/^permission denied for database/);
    const owner = await connect(databaseUrl);
    expect((await owner.query("select to_regnamespace('service') as schema")).rows).toEqual([{ schema: null }]);

    // A migration that is newer than what the owner has applied.
    await migrate(databaseUrl);
    await expect(migrate(url)).rejects.toThrow("permission denied for schema service");
    await owner.query(`grant usage on schema service to ${role}; grant select on service.migration to ${role}`);
    await owner.query("delete from service.migration where name = $1", [MIGRATIONS.at(-1)]);
    await expect(migrate(url)).rejects.toThrow("permission denied for schema service");
  });

  test("cannot look up keys until it may read them, and says so", async () => {
    const databaseUrl = await createDatabase();
    const { url, role } = await createRole(databaseUrl);
    await migrate(databaseUrl);
    const database = new Database(url, pino({ enabled: false }));
    onTestFinished(() => database.close());
    const directory = new KeyDirectory(database, new BatchLoad());
    const owner = await connect(databaseUrl);
    const { key } = await addKey(owner);
    await expect(directory.find(key)).rejects.toMatchObject({
      problem: "database-unavailable",
      message: expect.stringContaining("API keys cannot be looked up yet"),
    });
    await owner.query(`grant usage on schema service to ${role}; grant select on service.api_key to ${role}`);
    expect(await directory.find(key)).toMatchObject({ isKnown: true });
  });

  test("serves requests without keys before the owner makes the schema, and with keys after that, without a restart", async () => {
    const databaseUrl = await createSampleDatabase();
    const { url, role } = await createRole(databaseUrl);
    const owner = await connect(databaseUrl);
    await owner.query(`grant pg_read_all_data to ${role}`);
    const api = await startApi({ databaseUrl: url, env: FRESH_FOR_A_DAY });

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

test("an API that starts before its Postgres makes the schema as soon as it can, and then accepts keys", async () => {
  const databaseUrl = await createDatabase();
  const relay = await createDatabaseRelay(databaseUrl);
  const api = await startApi({ databaseUrl: relay.url });
  expect((await ask(api, generateKey())).status).toBe(503);
  expect(api.output()).toContain("API keys cannot be used");
  expect(api.output()).not.toContain(new URL(databaseUrl).password);

  await relay.open();
  await until(
    "an unknown key is a 401",
    async () => (await ask(api, generateKey())).status,
    10,
    (status) => status === 401,
  );
  const { key } = await addKey(await connect(databaseUrl));
  // Nothing is indexed in this database, but the key is accepted, and lifts the limit.
  const response = await ask(api, key);
  expect(await response.json()).toMatchObject({ status: 503, type: "/docs#problem-not-indexed" });
  expect(response.headers.get("RateLimit")).toBeNull();
  expect((await api.get(CHECK)).headers.get("RateLimit")).not.toBeNull();
});
