import { readdirSync } from "node:fs";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { describe, expect, onTestFinished, test } from "vitest";
import { BatchLoad } from "../../../api/batch.ts";
import { Database } from "../../../api/database.ts";
import { generateKey } from "../../../api/keys/api-key.ts";
import { KeyDirectory } from "../../../api/keys/key-directory.ts";
import { migrate } from "../../../api/migrate.ts";
import { startEmbeddedPostgres } from "../../../stack/embedded-postgres.ts";
import { findFreePort } from "../../../stack/ports.ts";
import { type Api, CHECK, createSampleDatabase, FRESH_FOR_A_DAY, startApi } from "../../support/api.ts";
import { addKey, createRole } from "../../support/keys.ts";
import { connect, createDatabase, until } from "../../support/setup.ts";

const MIGRATIONS = readdirSync(join(import.meta.dirname, "../../../api/migrations")).sort();

const ask = (api: Api, key: string) => api.get(CHECK, { headers: { "X-API-KEY": key } });

describe("the schema service", () => {
  test("is made once, also by ten who start at the same moment", async () => {
    const url = await createDatabase();
    await Promise.all(Array.from({ length: 10 }, () => migrate(url)));
    const database = await connect(url);
    const { rows } = await database.query("select name, applied_at from service.migration order by name");
    expect(rows.map(({ name }) => name)).toEqual(MIGRATIONS);
    await addKey(database);

    // And never again: nothing is applied anew, nothing is lost.
    await migrate(url);
    expect((await database.query("select name, applied_at from service.migration order by name")).rows).toEqual(rows);
    expect((await database.query("select 1 from service.api_key")).rows).toHaveLength(1);
  });

  test("is not left half made by a migration that fails", async () => {
    const url = await createDatabase();
    const database = await connect(url);
    // The second of the tables that the first migration makes is in its way.
    await database.query("create schema service; create table service.api_key_usage ()");
    await expect(migrate(url)).rejects.toThrow('relation "api_key_usage" already exists');
    const { rows } = await database.query("select tablename from pg_tables where schemaname = 'service'");
    expect(rows).toEqual([{ tablename: "api_key_usage" }]);

    await database.query("drop table service.api_key_usage");
    await migrate(url);
    await addKey(database);
  });

  test("says of each table and column what it is", async () => {
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

describe("who may not create anything", () => {
  test("can migrate where nothing is new", async () => {
    const databaseUrl = await createDatabase();
    const { url, role } = await createRole(databaseUrl);
    await migrate(databaseUrl);
    const owner = await connect(databaseUrl);
    await owner.query(`grant usage on schema service to ${role}; grant select on service.migration to ${role}`);
    await migrate(url);
    await Promise.all([migrate(url), migrate(url)]);
  });

  test("is told what is missing where something is", async () => {
    const databaseUrl = await createDatabase();
    const { url, role } = await createRole(databaseUrl);
    await expect(migrate(url)).rejects.toThrow(/^permission denied for database/);
    const owner = await connect(databaseUrl);
    expect((await owner.query("select to_regnamespace('service') as schema")).rows).toEqual([{ schema: null }]);

    // The same for one that is newer than what an owner has applied.
    await migrate(databaseUrl);
    await expect(migrate(url)).rejects.toThrow("permission denied for schema service");
    await owner.query(`grant usage on schema service to ${role}; grant select on service.migration to ${role}`);
    await owner.query("delete from service.migration where name = $1", [MIGRATIONS.at(-1)]);
    await expect(migrate(url)).rejects.toThrow("permission denied for schema service");
  });

  test("cannot look keys up, and says so, until it is allowed to read them", async () => {
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

  test("answers without keys before an owner has made the schema, and with keys soon after, without a restart", async () => {
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
    await until("its use is written down", async () => {
      const { rows } = await owner.query("select requests from service.api_key_usage where api_key_id = $1", [id]);
      return rows[0]?.requests === "1";
    });
  });
});

test("an API that was started before its Postgres makes the schema when that is there, and keys work", async () => {
  const directory = await mkdtemp(join(tmpdir(), "delegation-registry-migrate-"));
  await chmod(directory, 0o755);
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const port = await findFreePort();
  const start = () => startEmbeddedPostgres({ directory: join(directory, "postgres"), preferredPort: port });
  let postgres = await start();
  await postgres.stop();

  const api = await startApi({ databaseUrl: postgres.url });
  expect((await ask(api, generateKey())).status).toBe(503);
  expect(api.output()).toContain("API keys cannot be used");
  expect(api.output()).not.toContain(new URL(postgres.url).password);

  postgres = await start();
  onTestFinished(() => postgres.stop());
  await until(
    "an unknown key is told from a known one",
    async () => (await ask(api, generateKey())).status === 401,
    10,
  );
  const { key } = await addKey(await connect(postgres.url));
  // Nothing is indexed in this Postgres; but the key is let through, and is not limited.
  const response = await ask(api, key);
  expect(await response.json()).toMatchObject({ status: 503, type: "/docs#problem-not-indexed" });
  expect(response.headers.get("RateLimit")).toBeNull();
  expect((await api.get(CHECK)).headers.get("RateLimit")).not.toBeNull();
});
