import { join } from "node:path";
import { expect, test } from "vitest";
import { deriveScramVerifier } from "../../commands/roles/scram-verifier.ts";
import { startNode } from "../../process/child.ts";
import { CHECK, createSampleDatabase, FRESH_FOR_A_DAY, startTestApi } from "../support/api.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { addKey, revokeAddedKey } from "../support/keys.ts";
import { captureOutput } from "../support/output.ts";
import { createAdministrator, createRoleSettings, expectRights, runRoles } from "../support/roles.ts";
import { connectClient, createDatabase, waitUntil } from "../support/setup.ts";
import { generateName } from "../support/unique-name.ts";

// test/slow/commands/roles.test.ts runs indexers with these roles.

test("roles hands over a superuser's objects, and gives each role its own rights and no others", async () => {
  const databaseUrl = await createSampleDatabase();
  const database = await connectClient(databaseUrl);
  await (await startTestApi({ databaseUrl })).stop();
  const schema = await readServedSchema(database);
  const { env, roles, urls } = createRoleSettings(databaseUrl);
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

  const api = await startTestApi({ databaseUrl: urls.api, env: FRESH_FOR_A_DAY });
  const [asIndexer, asApi, asAnalyst] = [
    await connectClient(urls.indexer),
    await connectClient(urls.api),
    await connectClient(urls.analyst),
  ];
  const { key, id } = await addKey(asApi);
  expect(await (await api.get(CHECK, { headers: { "X-API-KEY": key } })).text()).toBe("true");
  await waitUntil("the key's usage is stored", async () => {
    const { rows } = await asApi.query("select 1 from service.api_key_usage where api_key_id = $1", [id]);
    return rows.length > 0;
  });
  await expectRights({ asIndexer, asApi, asAnalyst }, 1);
  // "npm run keys" needs only the API's role.
  await revokeAddedKey(asApi, key);
});

test("roles changes nothing while the tables are in use", async () => {
  const databaseUrl = await createSampleDatabase();
  const database = await connectClient(databaseUrl);
  const { env, roles } = createRoleSettings(databaseUrl);
  await database.query("begin; lock table indexer.shard in access share mode");
  expect(await runRoles(env)).toMatchObject({ code: 1, output: expect.stringContaining("The tables are in use") });
  await database.query("rollback");
  expect((await database.query("select 1 from pg_roles where rolname = $1", [roles.api])).rows).toEqual([]);
});

test("roles creates and updates roles as an administrator without superuser", async () => {
  const { env, urls, urlOf } = createRoleSettings(await createAdministrator(await createDatabase()));
  expect(await runRoles(env)).toMatchObject({ code: 0 });
  const changed = { API_PASSWORD: "another-secret", INDEX_SCHEMAS: "mainnet,rollups" };
  expect(await runRoles({ ...env, ...changed })).toMatchObject({ code: 0 });

  await expect(connectClient(urls.api)).rejects.toThrow("password authentication failed");
  const asIndexer = await connectClient(urls.indexer);
  await asIndexer.query("create view rollups.delegation_v1 as select 1 as one");
  const asApi = await connectClient(urlOf(env.API_ROLE, changed.API_PASSWORD));
  expect((await asApi.query("select * from rollups.delegation_v1")).rows).toEqual([{ one: 1 }]);
});

test("roles limits an analyst's sessions, and keeps limits that the operator has changed", async () => {
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const { env, roles, urls } = createRoleSettings(databaseUrl);
  await runRoles(env);
  await database.query(`alter role ${roles.analyst} set statement_timeout = '10min'`);
  await database.query(`alter role ${roles.analyst} reset work_mem; alter role ${roles.analyst} connection limit 2`);
  await runRoles(env);
  const first = await connectClient(urls.analyst);
  const { rows } = await first.query(
    "select string_agg(current_setting(name), ' ' order by name) as limits from pg_settings where name = any ($1)",
    [["idle_in_transaction_session_timeout", "statement_timeout", "temp_file_limit", "work_mem"]],
  );
  expect(rows[0].limits).toBe("1min 10min 1GB 16MB");
  await connectClient(urls.analyst);
  await expect(connectClient(urls.analyst)).rejects.toThrow("too many connections for role");
});

test("roles refuses a role that is a superuser", async () => {
  const databaseUrl = await createDatabase();
  const { env, roles } = createRoleSettings(databaseUrl);
  await (await connectClient(databaseUrl)).query(`create role ${roles.api} superuser`);
  expect(await runRoles(env)).toMatchObject({ code: 1, output: expect.stringContaining("is a superuser") });
});

test("npm run roles ends with code 1 and all problems of its settings, without passwords", async () => {
  const { output, printed } = captureOutput();
  const child = startNode(join(import.meta.dirname, "../../commands/roles/main.ts"), [], {
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

test("deriveScramVerifier() returns what Postgres stores for a password", async () => {
  const database = await connectClient(await createDatabase());
  const role = generateName("scram");
  await database.query(`create role ${role} password 'correct horse'`);
  const { rows } = await database.query("select rolpassword from pg_authid where rolname = $1", [role]);
  await database.query(`drop role ${role}`);
  const [, salt = ""] = /^SCRAM-SHA-256\$4096:(.*?)\$/.exec(rows[0].rolpassword) ?? [];
  expect(deriveScramVerifier("correct horse", Buffer.from(salt, "base64"))).toBe(rows[0].rolpassword);
});
