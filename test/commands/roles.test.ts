import type pg from "pg";
import { expect, test } from "vitest";
import { scramVerifier } from "../../roles/scram-verifier.ts";
import { HOT, startApi, VAULT } from "../support/api.ts";
import { startIndexerProcess } from "../support/indexer-process.ts";
import { addKey, endKey } from "../support/keys.ts";
import { Random } from "../support/random.ts";
import { rolesFor, runRoles } from "../support/roles.ts";
import { connect, createDatabase, until, untilIndexed } from "../support/setup.ts";
import { Subject } from "../support/subject.ts";
import { uniqueName } from "../support/unique-name.ts";

const servedSchema = async (database: pg.Client): Promise<string> => {
  const { rows } = await database.query("select schema from indexer.shard where name = 'registry'");
  return rows[0]?.schema;
};

const expectDenied = async (client: pg.Client, statements: readonly string[]) => {
  for (const statement of statements) {
    await expect(client.query(statement), statement).rejects.toThrow(/permission denied|must be owner|read-only/);
  }
};

const expectAllowed = async (client: pg.Client, statements: readonly string[]) => {
  for (const statement of statements) await expect(client.query(statement), statement).resolves.toBeDefined();
};

test("indexer, API and analyst each do their own work with a role of their own, and none the others', also after a re-index", async () => {
  const databaseUrl = await createDatabase();
  const { env, urls } = rolesFor(databaseUrl);
  expect(await runRoles(env)).toMatchObject({ code: 0 });
  // Once more changes nothing.
  const { code, output } = await runRoles(env);
  expect(code).toBe(0);
  expect(output).not.toMatch(/handed over|secret/);

  const subject = await Subject.create(8453, new Random(11));
  await subject.mineRandomBlocks(40);
  const indexer = await startIndexerProcess({ databaseUrl: urls.indexer, chains: [subject.local] });
  const asIndexer = await connect(urls.indexer);
  await untilIndexed(asIndexer, subject.local);
  const api = await startApi({ databaseUrl: urls.api });
  const asApi = await connect(urls.api);
  const { key, id } = await addKey(asApi);
  await subject.expectSameAnswersOverHttp(api.url, key);
  await until("the key's use is written down", async () => {
    const { rows } = await asApi.query("select 1 from service.api_key_usage where api_key_id = $1", [id]);
    return rows.length > 0;
  });

  // Things that the indexer makes after the roles were made.
  await asIndexer.query("create view analytics.roles_test as select * from registry.delegation_change");
  await asIndexer.query(
    "create function analytics.count_test() returns bigint stable language sql return (select count(*) from analytics.roles_test)",
  );
  const asAnalyst = await connect(urls.analyst);
  const schema = await servedSchema(asIndexer);

  const expectLimits = async (index: string) => {
    await expectAllowed(asApi, [
      "select * from registry.delegation_v1 limit 1",
      "select * from registry.delegation_v2 limit 1",
      "select * from registry.indexed_block",
      "select * from registry.vault_v1 limit 1",
      "select * from indexer.chain",
      "select * from analytics.daily_activity",
      "select * from analytics.contracts",
    ]);
    await expectDenied(asApi, [
      "delete from registry.delegation_v2",
      "update registry.delegation_v1 set chain_id = 0",
      "update indexer.shard set caught_up = true",
      "create table registry.mine ()",
      "create table indexer.mine ()",
      "create table public.mine ()",
      "create schema mine",
      `select 1 from ${index}.delegation_v2`,
      "select 1 from ponder_sync.blocks",
      "delete from analytics.roles_test",
    ]);
    const { rows } = await asAnalyst.query("select count(*), analytics.count_test() from analytics.roles_test");
    expect(Number(rows[0].count)).toBeGreaterThan(0);
    expect(rows[0].count_test).toBe(rows[0].count);
    await expectAllowed(asAnalyst, [
      "select * from analytics.changes limit 1",
      "select * from analytics.chains",
      "select * from analytics.delegations_at(8453, 10)",
      `select analytics.check_all(8453, '${HOT}', '${VAULT}')`,
    ]);
    // Not even where it lifts its own restraints.
    await asAnalyst.query("set default_transaction_read_only = off");
    await expectDenied(asAnalyst, [
      "select 1 from service.api_key",
      "select 1 from service.api_key_usage",
      "select 1 from service.session",
      "select 1 from service.sign_in",
      "select 1 from registry.delegation_v2",
      `select 1 from ${index}.delegation_v2`,
      "select 1 from indexer.shard",
      "select 1 from ponder_sync.blocks",
      "delete from analytics.roles_test",
      "create view analytics.mine as select 1",
      "create schema mine",
      "create table public.mine ()",
    ]);
  };
  await expectLimits(schema);
  await expectDenied(asIndexer, [
    "select 1 from service.api_key",
    "delete from service.api_key",
    "create table service.mine ()",
  ]);

  // A view whose columns change is made anew, and would lose what was granted on it alone.
  await asIndexer.query("drop view registry.vault_v1; create view registry.vault_v1 as select 1 as other");
  await subject.mineRandomBlocks(2);
  await startIndexerProcess({ databaseUrl: urls.indexer, chains: [subject.local], env: { START_BLOCK_8453: "1" } });
  expect(await indexer.exited).toEqual({ code: 0, signal: null });
  const next = await servedSchema(asIndexer);
  expect(next).not.toBe(schema);
  await until("the old index is dropped", async () => {
    const { rows } = await asIndexer.query("select to_regnamespace($1) as schema", [schema]);
    return rows[0].schema === null;
  });
  await subject.mineRandomBlocks(2);
  await untilIndexed(asIndexer, subject.local);
  await subject.expectSameAnswersOverHttp(api.url, key);
  await expectLimits(next);

  // The API's role is all that "npm run keys" needs.
  await endKey(asApi, key);
});

test("what one superuser has made is handed over, and goes on under the roles; while it is in use nothing is changed", async () => {
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  const subject = await Subject.create(8453, new Random(12));
  const chains = [subject.local];
  await subject.mineRandomBlocks(20);
  const before = { indexer: await startIndexerProcess({ databaseUrl, chains }), api: await startApi({ databaseUrl }) };
  await untilIndexed(database, subject.local);
  const schema = await servedSchema(database);
  const { key } = await addKey(database);
  await Promise.all([before.indexer.stop(), before.api.stop()]);

  const { env, roles, urls } = rolesFor(databaseUrl);
  await database.query("begin; lock table indexer.shard in access share mode");
  const refused = await runRoles(env);
  expect(refused).toMatchObject({ code: 1, output: expect.stringContaining("The tables are in use") });
  await database.query("rollback");
  expect((await database.query("select 1 from pg_roles where rolname = $1", [roles.api])).rows).toEqual([]);

  const { code, output } = await runRoles(env);
  expect({ code, output }).toMatchObject({ code: 0, output: expect.stringContaining("handed over") });
  const { rows: owners } = await database.query(`
    select distinct nspname, pg_get_userbyid(owner) as owner from (
      select relnamespace as schema, relowner as owner from pg_class where relkind <> 't'
      union all select oid, nspowner from pg_namespace
      union all select pronamespace, proowner from pg_proc
      union all select typnamespace, typowner from pg_type
    ) as thing join pg_namespace on pg_namespace.oid = thing.schema
    where nspname !~ '^pg_|^information_schema$|^public$' order by 1`);
  expect(owners).toEqual(
    ["analytics", "indexer", "ponder_sync", "registry", schema, "service"].map((nspname) => ({
      nspname,
      owner: nspname === "service" ? roles.api : roles.indexer,
    })),
  );

  await subject.mineRandomBlocks(3);
  const indexer = await startIndexerProcess({ databaseUrl: urls.indexer, chains });
  const api = await startApi({ databaseUrl: urls.api });
  await untilIndexed(database, subject.local);
  expect(await servedSchema(database)).toBe(schema);
  expect(indexer.output()).toContain("Detected crash recovery");
  await subject.expectSameAnswersOverHttp(api.url, key);
  expect((await runRoles(env)).output).not.toContain("handed over");
});

test("an administrator who is no superuser can make the roles, and make them again with other passwords and shards", async () => {
  const admin = await connect(await createDatabase());
  const name = uniqueName("admin");
  const { rows } = await admin.query("select current_database() as database");
  await admin.query(`create role ${name} login createrole password 'pass'`);
  await admin.query(`alter database ${rows[0].database} owner to ${name}`);
  const url = new URL(await createDatabase());
  [url.username, url.password, url.pathname] = [name, "pass", `/${rows[0].database}`];

  const { env, urls, urlOf } = rolesFor(url.href);
  expect(await runRoles(env)).toMatchObject({ code: 0 });
  const changed = { API_PASSWORD: "another-secret", INDEX_SCHEMAS: "mainnet,rollups" };
  expect(await runRoles({ ...env, ...changed })).toMatchObject({ code: 0 });

  await expect(connect(urls.api)).rejects.toThrow("password authentication failed");
  const asIndexer = await connect(urls.indexer);
  await asIndexer.query("create view rollups.delegation_v1 as select 1 as one");
  const asApi = await connect(urlOf(env.API_ROLE, changed.API_PASSWORD));
  expect((await asApi.query("select * from rollups.delegation_v1")).rows).toEqual([{ one: 1 }]);
});

test("a role that is a superuser is refused: nothing could be denied it", async () => {
  const databaseUrl = await createDatabase();
  const { env, roles } = rolesFor(databaseUrl);
  const database = await connect(databaseUrl);
  await database.query(`create role ${roles.api} superuser`);
  const { code, output } = await runRoles(env);
  expect({ code, output }).toMatchObject({ code: 1, output: expect.stringContaining("is a superuser") });
});

test("all problems of the settings are told at once, and no password", async () => {
  const { code, output } = await runRoles({
    DATABASE_URL: "mysql://user:s3cret@db.example",
    INDEX_SCHEMAS: "service",
    INDEXER_ROLE: "Robert'); drop",
    INDEXER_PASSWORD: "s3cret",
    API_PASSWORD: "s3cret with spaces",
    ANALYST_ROLE: "delegation_api",
  });
  expect(code).toBe(1);
  for (const name of ["DATABASE_URL", "INDEX_SCHEMAS", "INDEXER_ROLE", "INDEXER_PASSWORD", "API_PASSWORD"]) {
    expect(output).toMatch(new RegExp(`^ {2}- ${name}\\b`, "m"));
  }
  expect(output).toContain("ANALYST_PASSWORD is not set.");
  expect(output).toContain("must be three roles");
  expect(output).not.toContain("s3cret");
});

test("a password is sent as what Postgres itself would keep of it", async () => {
  const database = await connect(await createDatabase());
  const role = uniqueName("scram");
  await database.query(`create role ${role} password 'correct horse'`);
  const { rows } = await database.query("select rolpassword from pg_authid where rolname = $1", [role]);
  await database.query(`drop role ${role}`);
  const [, salt = ""] = /^SCRAM-SHA-256\$4096:(.*?)\$/.exec(rows[0].rolpassword) ?? [];
  expect(scramVerifier("correct horse", Buffer.from(salt, "base64"))).toBe(rows[0].rolpassword);
});
