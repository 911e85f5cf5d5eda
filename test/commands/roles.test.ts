import { join } from "node:path";
import { expect, test } from "vitest";
import { scramVerifier } from "../../roles/scram-verifier.ts";
import { startNode } from "../../stack/child.ts";
import { CHECK, createSampleDatabase, FRESH_FOR_A_DAY, startApi } from "../support/api.ts";
import { servedSchema } from "../support/index-copy.ts";
import { addKey, endKey } from "../support/keys.ts";
import { keepOutput } from "../support/output.ts";
import { expectRights, rolesFor, runRoles } from "../support/roles.ts";
import { connect, createDatabase, until } from "../support/setup.ts";
import { uniqueName } from "../support/unique-name.ts";

// With indexers that run under these roles: test/slow/commands/roles.test.ts.

test("roles takes over what a superuser has made, and each role has its own rights and no others", async () => {
  const databaseUrl = await createSampleDatabase();
  const database = await connect(databaseUrl);
  await (await startApi({ databaseUrl })).stop();
  const schema = await servedSchema(database);
  const { env, roles, urls } = rolesFor(databaseUrl);
  const first = await runRoles(env);
  expect(first).toMatchObject({ code: 0, output: expect.stringContaining("handed over") });
  expect(first.output).not.toContain("secret");
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
  expect((await runRoles(env)).output).not.toContain("handed over");

  const api = await startApi({ databaseUrl: urls.api, env: FRESH_FOR_A_DAY });
  const [asIndexer, asApi, asAnalyst] = [
    await connect(urls.indexer),
    await connect(urls.api),
    await connect(urls.analyst),
  ];
  const { key, id } = await addKey(asApi);
  expect(await (await api.get(CHECK, { headers: { "X-API-KEY": key } })).text()).toBe("true");
  await until("the key's use is stored", async () => {
    const { rows } = await asApi.query("select 1 from service.api_key_usage where api_key_id = $1", [id]);
    return rows.length > 0;
  });
  await expectRights({ asIndexer, asApi, asAnalyst }, 1);
  // The API's role is all that "npm run keys" needs.
  await endKey(asApi, key);
});

test("roles changes nothing while the tables are in use", async () => {
  const databaseUrl = await createSampleDatabase();
  const database = await connect(databaseUrl);
  const { env, roles } = rolesFor(databaseUrl);
  await database.query("begin; lock table indexer.shard in access share mode");
  expect(await runRoles(env)).toMatchObject({ code: 1, output: expect.stringContaining("The tables are in use") });
  await database.query("rollback");
  expect((await database.query("select 1 from pg_roles where rolname = $1", [roles.api])).rows).toEqual([]);
});

test("roles can be made, and made again with other passwords and shards, by an administrator without superuser", async () => {
  const url = new URL(await createDatabase());
  const admin = await connect(url.href);
  const name = uniqueName("admin");
  await admin.query(`create role ${name} login createrole password 'pass'`);
  await admin.query(`alter database ${url.pathname.slice(1)} owner to ${name}`);
  [url.username, url.password] = [name, "pass"];

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

test("roles refuses a role that is a superuser", async () => {
  const databaseUrl = await createDatabase();
  const { env, roles } = rolesFor(databaseUrl);
  await (await connect(databaseUrl)).query(`create role ${roles.api} superuser`);
  expect(await runRoles(env)).toMatchObject({ code: 1, output: expect.stringContaining("is a superuser") });
});

test("npm run roles names all problems of its settings at once, shows no password, and ends with code 1", async () => {
  const { output, printed } = keepOutput();
  const child = startNode(join(import.meta.dirname, "../../roles/main.ts"), [], {
    output,
    env: {
      PATH: process.env.PATH,
      DATABASE_URL: "mysql://user:s3cret@db.example",
      INDEX_SCHEMAS: "service",
      INDEXER_ROLE: "Robert'); drop",
      INDEXER_PASSWORD: "s3cret",
      API_PASSWORD: "s3cret with spaces",
      ANALYST_ROLE: "delegation_api",
    },
  });
  expect(await child.exited).toEqual({ code: 1, signal: null });
  for (const name of ["DATABASE_URL", "INDEX_SCHEMAS", "INDEXER_ROLE", "INDEXER_PASSWORD", "API_PASSWORD"]) {
    expect(printed()).toMatch(new RegExp(`^ {2}- ${name}\\b`, "m"));
  }
  expect(printed()).toContain("ANALYST_PASSWORD is not set.");
  expect(printed()).toContain("must be three roles");
  expect(printed()).not.toContain("s3cret");
});

test("scramVerifier() gives what Postgres itself stores of a password", async () => {
  const database = await connect(await createDatabase());
  const role = uniqueName("scram");
  await database.query(`create role ${role} password 'correct horse'`);
  const { rows } = await database.query("select rolpassword from pg_authid where rolname = $1", [role]);
  await database.query(`drop role ${role}`);
  const [, salt = ""] = /^SCRAM-SHA-256\$4096:(.*?)\$/.exec(rows[0].rolpassword) ?? [];
  expect(scramVerifier("correct horse", Buffer.from(salt, "base64"))).toBe(rows[0].rolpassword);
});
