import { join } from "node:path";
import type pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { deriveScramVerifier } from "../../commands/roles/scram-verifier.ts";
import { startEndingLongReaders } from "../../indexer/shards/end-long-readers.ts";
import { startNode } from "../../process/child.ts";
import { CHECK, createSampleDatabase, FRESH_FOR_A_DAY, startTestApi } from "../support/api.ts";
import { createAdministrator, createRoleSettings, expectRights, runRoles } from "../support/commands.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { addKey, revokeAddedKey } from "../support/keys.ts";
import { captureOutput } from "../support/run.ts";
import { connectClient, createDatabase, generateName, waitUntil } from "../support/setup.ts";

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

/** Creates a name for a role, which is dropped after the test. */
const generateRole = (database: pg.Client, prefix: string): string => {
  const name = generateName(prefix);
  onTestFinished(async () => {
    await database.query(`drop owned by ${name} cascade; drop role ${name}`).catch(() => {});
  });
  return name;
};

/** Opens a database of the server to every role, as a new server has it. Other tests may close it at any time. */
const openDatabase = (database: pg.Client, name: string) =>
  database.query(`grant connect on database ${name} to public`);

const inDatabase = (url: string, name: string) => Object.assign(new URL(url), { pathname: `/${name}` }).href;

test("roles lets no analyst connect to the databases that every role may use by default", async () => {
  const databaseUrl = await createDatabase();
  const { env, urls } = createRoleSettings(databaseUrl);
  expect(await runRoles(env)).toMatchObject({ code: 0, output: expect.not.stringContaining("can still connect") });
  for (const name of ["postgres", "template1"]) {
    await expect(connectClient(inDatabase(urls.analyst, name)), name).rejects.toThrow("permission denied for database");
  }
  await connectClient(urls.analyst);
});

test("roles leaves the database postgres to roles for replication, which replicas and their operators need", async () => {
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const { env, urlOf } = createRoleSettings(databaseUrl);
  const [replicator, other] = [generateRole(database, "replicator"), generateRole(database, "other")];
  await database.query(`create role ${replicator} login replication password 'pass'`);
  await database.query(`create role ${other} login password 'pass'`);
  await runRoles(env);
  await connectClient(inDatabase(urlOf(replicator, "pass"), "postgres"));
  const refused = connectClient(inDatabase(urlOf(other, "pass"), "postgres"));
  await expect(refused).rejects.toThrow("permission denied for database");
});

test("roles succeeds while another one closes the same databases", async () => {
  const databaseUrl = await createDatabase();
  const [database, other] = [await connectClient(databaseUrl), await connectClient(databaseUrl)];
  const { env } = createRoleSettings(databaseUrl);
  await openDatabase(database, "postgres").catch(() => {});
  await other.query("begin; revoke connect on database postgres from public");
  const { rows } = await other.query("select pg_backend_pid() as pid");
  let isOver = false;
  const running = runRoles(env).finally(() => {
    isOver = true;
  });
  await waitUntil("it waits for the other one", async () => {
    const waiting = "select from pg_stat_activity where $1 = any (pg_blocking_pids(pid))";
    return isOver || (await database.query(waiting, [rows[0].pid])).rowCount;
  });
  await other.query("commit");
  expect(await running).toMatchObject({ code: 0 });
});

test("roles names the databases that an administrator without superuser cannot close", async () => {
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const { env } = createRoleSettings(await createAdministrator(databaseUrl));
  await waitUntil("it names template1", async () => {
    await openDatabase(database, "template1").catch(() => {});
    const { code, output } = await runRoles(env);
    return code === 0 && output.includes("revoke connect, temporary on database template1 from public");
  });
});

test("roles analyst gives each analyst a login that no other analyst can change", async () => {
  const databaseUrl = await createSampleDatabase();
  await (await startTestApi({ databaseUrl })).stop();
  const database = await connectClient(databaseUrl);
  const { env, roles, urls, urlOf } = createRoleSettings(databaseUrl);
  await runRoles(env);
  const { INDEXER_PASSWORD: _, API_PASSWORD: __, ANALYST_PASSWORD: ___, ...withoutPasswords } = env;
  const create = async (name: string) => {
    const { code, output, printed } = await runRoles(withoutPasswords, "analyst", name);
    expect({ code, output }).toEqual({ code: 0, output: expect.stringContaining(name) });
    expect(printed).toMatch(/^[\w-]{32}$/);
    expect(output).not.toContain(printed);
    return urlOf(name, printed);
  };
  const [alice, bob] = [generateRole(database, "alice"), generateRole(database, "bob")];
  const [aliceUrl, bobUrl] = [await create(alice), await create(bob)];

  const asAlice = await connectClient(aliceUrl);
  await asAlice.query("set default_transaction_read_only = off");
  await asAlice.query(`alter role ${alice} password 'changed'`);
  for (const other of [bob, roles.analyst]) {
    for (const attack of [`alter role ${other} password 'x'`, `set role ${other}`, `drop owned by ${other}`]) {
      await expect(asAlice.query(attack), attack).rejects.toThrow("permission denied");
    }
  }
  await expect(connectClient(aliceUrl)).rejects.toThrow("password authentication failed");
  await connectClient(urls.analyst);
  await connectClient(await create(alice));

  const asAnalyst = await connectClient(bobUrl);
  const { rows } = await asAnalyst.query(
    `select rolconnlimit, current_setting('statement_timeout') as timeout, current_setting('temp_file_limit') as files
     from pg_roles where rolname = current_user`,
  );
  expect(rows).toEqual([{ rolconnlimit: 10, timeout: "1min", files: "1GB" }]);
  const [asIndexer, asApi] = [await connectClient(urls.indexer), await connectClient(urls.api)];
  await expectRights({ asIndexer, asApi, asAnalyst }, 1);
});

test("an indexer ends long transactions of every analyst that its role is a member of, and no others", async () => {
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const { env, roles, urls, urlOf } = createRoleSettings(databaseUrl);
  await runRoles(env);
  const alice = generateRole(database, "alice");
  const { printed } = await runRoles(env, "analyst", alice);
  const [indirect, foreign] = [generateRole(database, "indirect"), generateRole(database, "foreign")];
  await database.query(`create role ${indirect} login password 'pass'; create role ${foreign} login password 'pass'`);
  await database.query(`grant usage on schema analytics to ${indirect}; grant ${indirect} to ${roles.analyst}`);
  await database.query(`grant ${roles.analyst} to ${foreign}`);

  const ended: string[] = [];
  const begin = async (name: string, url: string) => {
    const session = await connectClient(url);
    session.on("end", () => ended.push(name));
    await session.query("begin; select 1");
    return session;
  };
  await begin("alice", urlOf(alice, printed));
  await begin("shared", urls.analyst);
  await begin("indirect", urlOf(indirect, "pass"));
  const others = [await begin("api", urls.api), await begin("foreign", urlOf(foreign, "pass"))];
  const errors: string[] = [];
  const { stop } = startEndingLongReaders({
    databaseUrl: urls.indexer,
    maxSeconds: 1,
    log: (text) => errors.push(text),
  });
  onTestFinished(stop);
  await waitUntil("the sessions of analysts are ended", () => ended.length === 3);
  for (const other of others) await other.query("select 1");
  expect(ended.toSorted()).toEqual(["alice", "indirect", "shared"]);
  expect(errors).toEqual([]);
});

test("roles analyst refuses names of other roles, and other arguments", async () => {
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const { env, roles } = createRoleSettings(databaseUrl);
  const [taken, superuser] = [generateRole(database, "taken"), generateRole(database, "super")];
  const expectRefused = async (args: string[], message: string) =>
    expect(await runRoles(env, ...args)).toEqual({ code: 1, output: expect.stringContaining(message), printed: "" });
  await expectRefused(["analyst", taken], 'run "npm run roles" first');
  await runRoles(env);
  await database.query(
    `create role ${taken}; create role ${superuser} superuser; grant ${superuser} to ${roles.indexer}`,
  );
  await expectRefused(["analyst", taken], "is no analyst's");
  await expectRefused(["analyst", superuser], "is a superuser");
  for (const role of Object.values(roles)) await expectRefused(["analyst", role], "NAME is a role of the service");
  await expectRefused(["analyst", "Robert'); drop"], "NAME must be 1 to 63");
  await expectRefused(["analyst", "postgres"], "NAME is a role with another use");
  for (const args of [["analyst"], ["analyst", "one", "two"], ["--help"]])
    await expectRefused(args, "npm run roles [--");
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
