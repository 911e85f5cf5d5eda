import { execFile } from "node:child_process";
import { chmod, cp, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type pg from "pg";
import { describe, expect, onTestFinished } from "vitest";
import { migrate } from "../../api/database/migrate.ts";
import { generateKey, isWellFormed, prefixOf } from "../../api/keys/api-key.ts";
import { startEmbeddedPostgres } from "../../local/embedded-postgres.ts";
import { findFreePort } from "../../process/ports.ts";
import { CHECK, createSampleDatabase, FRESH_FOR_A_DAY, startTestApi } from "../support/api.ts";
import { runKeys } from "../support/commands.ts";
import { addKey, extractSecret, misspellKey, revokeAddedKey } from "../support/keys.ts";
import { ROOT } from "../support/run.ts";
import { connectClient, createDatabase } from "../support/setup.ts";
import { test as base } from "../support/test.ts";

const createKeyDatabase = async () => {
  const databaseUrl = await createDatabase();
  await migrate(databaseUrl);
  return databaseUrl;
};
const test = base.extend("databaseUrl", createKeyDatabase);

/** Runs the command, and expects success. */
const keys = async (databaseUrl: string, ...args: string[]) => {
  const { code, stdout, stderr } = await runKeys(args, databaseUrl);
  expect(code, stderr).toBe(0);
  return { stdout, stderr };
};

/** Runs the command, and expects failure. Returns the reason. */
const fail = async (databaseUrl: string, ...args: string[]) => {
  const { code, stdout, stderr } = await runKeys(args, databaseUrl);
  expect([code, stdout]).toEqual([1, ""]);
  return stderr;
};

/** Parses a printed table into rows by column name. */
const readTable = (text: string): Record<string, string>[] => {
  const [head = "", ...lines] = text.trimEnd().split("\n");
  const columns = head.split(/ {2,}/).map((name) => ({ name, start: head.indexOf(name) }));
  return lines.map((line) =>
    Object.fromEntries(
      columns.map(({ name, start }, index) => [name, line.slice(start, columns[index + 1]?.start).trimEnd()]),
    ),
  );
};

const MINUTE = /^\d{4}-\d{2}-\d{2} \d{2}:\d{2}$/;

/** Expects the current minute or the one before. */
const expectNow = (text = "") => {
  expect(text).toMatch(MINUTE);
  const age = Date.now() - Date.parse(`${text.replace(" ", "T")}Z`);
  expect(age).toBeGreaterThanOrEqual(0);
  expect(age).toBeLessThan(120_000);
};

const revokedAt = async (database: pg.Client, key: string): Promise<Date | null> => {
  const { rows } = await database.query("select revoked_at from service.api_key where prefix = $1", [prefixOf(key)]);
  return rows[0]?.revoked_at;
};

test("create prints only the key, which is accepted at once, not stored, and listed by prefix with its usage", async () => {
  const databaseUrl = await createSampleDatabase();
  const client = await connectClient(databaseUrl);
  const api = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const ask = async (key: string) => (await api.get(CHECK, { headers: { "X-API-KEY": key } })).status;

  const { stdout, stderr } = await keys(databaseUrl, "create", "--name", " Example, Inc. ");
  const key = stdout.trimEnd();
  expect(stdout).toBe(`${key}\n`);
  expect(isWellFormed(key), key).toBe(true);
  expect(stderr).toContain('"Example, Inc."');
  expect(stderr).not.toContain(prefixOf(key));

  expect(await ask(key)).toBe(200);
  expect(await ask(key)).toBe(200);
  expect(await ask(misspellKey(key))).toBe(401);
  expect(await ask(generateKey())).toBe(401);
  // Stopping the API stores the usage.
  await api.stop();

  const { rows } = await client.query("select tablename from pg_tables where schemaname = 'service'");
  const stored: string[] = [];
  for (const { tablename } of rows) {
    const table = await client.query(`select t::text as text from service.${tablename} t`);
    stored.push(...table.rows.map(({ text }) => text));
  }
  expect(stored.join("\n")).toContain(prefixOf(key));
  expect(stored.join("\n")).not.toContain(extractSecret(key));

  const list = await keys(databaseUrl, "list");
  expect(list.stdout + list.stderr).not.toContain(extractSecret(key));
  const [{ CREATED, "LAST USED": lastUsed, ...others } = {}] = readTable(list.stdout);
  const row = { NAME: "Example, Inc.", PREFIX: prefixOf(key), REQUESTS: "2" };
  expect(others).toEqual({ ...row, OWNER: "operator", STATE: "active" });
  expectNow(CREATED);
  expectNow(lastUsed);

  const usage = await keys(databaseUrl, "usage");
  expect(readTable(usage.stdout)).toEqual([{ ...row, DAY: lastUsed?.slice(0, 10) }]);
  expect(usage.stdout).not.toContain(extractSecret(key));
});

describe("create", () => {
  test.for([
    ["delreg_a1B2c3D4", "must not begin like a key"],
    ["\u001b[2Jgone", "must be 1 to 64 characters of plain text"],
    ["x".repeat(65), "must be 1 to 64 characters of plain text"],
  ] as const)("refuses the name %j", async ([name, reason], { databaseUrl }) => {
    expect(await fail(databaseUrl, "create", "--name", name)).toContain(`The name ${reason}`);
  });

  test("ends if every prefix is taken", async () => {
    const databaseUrl = await createKeyDatabase();
    const database = await connectClient(databaseUrl);
    await database.query(`
      create function service.refuse() returns trigger language plpgsql as 'begin return null; end';
      create trigger refuse before insert on service.api_key for each row execute function service.refuse()`);
    expect(await fail(databaseUrl, "create", "--name", "none")).toContain("No key could be made");
  });

  test("accepts a name that another key has", async ({ databaseUrl, database }) => {
    const create = () => keys(databaseUrl, "create", "--name", "same");
    expect((await create()).stdout).not.toBe((await create()).stdout);
    const { rows } = await database.query("select from service.api_key where name = 'same'");
    expect(rows).toHaveLength(2);
  });
});

describe("block and unblock", () => {
  const OWNER = `0x${"aB".repeat(20)}`;

  test("change the state of an owner's keys in the list, of that owner only", async () => {
    const databaseUrl = await createKeyDatabase();
    const client = await connectClient(databaseUrl);
    const [plain, contract] = [OWNER.toLowerCase(), `eip155:137:${OWNER.toLowerCase()}`];
    for (const owner of [plain, contract]) {
      const { id } = await addKey(client, owner);
      await client.query("update service.api_key set owner = $1, slot = 1 where id = $2", [owner, id]);
    }
    const listStates = async () =>
      readTable((await keys(databaseUrl, "list")).stdout).map((row) => `${row.OWNER} ${row.STATE}`);
    expect((await keys(databaseUrl, "block", OWNER)).stderr).toContain(`${plain} is blocked`);
    expect(await listStates()).toEqual([`${plain} blocked`, `${contract} active`]);
    await keys(databaseUrl, "block", OWNER);
    await keys(databaseUrl, "unblock", OWNER);
    expect((await keys(databaseUrl, "unblock", OWNER)).stderr).toContain("was not blocked");
    expect(await listStates()).toEqual([`${plain} active`, `${contract} active`]);
  });

  test.for([[], ["delreg_abc"], [OWNER, OWNER], [OWNER.slice(1)]])("refuse what is no owner: %j", async (args) => {
    expect(await fail("postgres://127.0.0.1:1/none", "block", ...args)).toContain("block <owner>");
  });
});

describe("list", () => {
  test("creates the tables as the first command, and reports that there are no keys", async () => {
    const empty = await createDatabase();
    const { stdout, stderr } = await keys(empty, "list");
    expect(stdout).toBe("");
    expect(stderr).toContain("There are no keys");
    expect((await keys(empty, "usage")).stderr).toContain("No requests with a key in the last 30 days");
  });

  test("shows used, unused and revoked keys", async () => {
    const databaseUrl = await createKeyDatabase();
    const database = await connectClient(databaseUrl);
    const used = await addKey(database, "used");
    const unused = await addKey(database, "a name with  two spaces in it");
    const revoked = await addKey(database, "gone");
    const CREATED = "2024-02-29 23:59:59.999+00";
    await database.query("update service.api_key set created_at = $1 where id = $2", [CREATED, used.id]);
    await revokeAddedKey(database, revoked.key);
    await database.query(
      `insert into service.api_key_usage values
        ($1, '2024-03-01', 9007199254740993, '2024-03-01 12:34:56+00'), ($1, '2024-03-02', 7, '2024-03-02 01:02:03+00'),
        ($2, '2024-03-01', 1, '2024-03-01 00:00:00+00')`,
      [used.id, revoked.id],
    );
    const { stdout } = await keys(databaseUrl, "list");
    for (const { key } of [used, unused, revoked]) expect(stdout).not.toContain(extractSecret(key));
    const lines = stdout.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^NAME +PREFIX +OWNER +CREATED +LAST USED +REQUESTS +STATE$/);
    const minute = expect.stringMatching(MINUTE);
    const revocation = expect.stringMatching(/^revoked /);
    expect(lines.slice(1).map((line) => line.split(/ {3,}| {2}(?!two)/))).toEqual([
      ["used", prefixOf(used.key), "operator", "2024-02-29 23:59", "2024-03-02 01:02", "9007199254741000", "active"],
      ["a name with  two spaces in it", prefixOf(unused.key), "operator", minute, "never", "0", "active"],
      ["gone", prefixOf(revoked.key), "operator", minute, "2024-03-01 00:00", "1", revocation],
    ]);
    expectNow(/revoked (.*)$/.exec(lines[3] ?? "")?.[1]);
  });

  test.for<[string, () => string | Promise<string>, string]>([
    ["is unreachable", async () => `postgres://me:hunter2@127.0.0.1:${await findFreePort()}/keys`, "ECONNREFUSED"],
    [
      "refuses the password",
      async () => (await createDatabase()).replace(/:[^:@]+@/, ":hunter2@"),
      "password authentication failed",
    ],
    ["is not Postgres", () => "mysql://me:hunter2@127.0.0.1/keys", "DATABASE_URL must be a postgres:// URL"],
  ])("fails with the reason and without the password for a database that %s", async ([, urlOf, reason]) => {
    const stderr = await fail(await urlOf(), "list");
    expect(stderr).toContain(reason);
    expect(stderr).not.toContain("hunter2");
  });
});

test("usage shows requests by key and day, of 30 days or --days, of all keys or one", async () => {
  const databaseUrl = await createKeyDatabase();
  const database = await connectClient(databaseUrl);
  const [one, other] = [await addKey(database, "one"), await addKey(database, "other")];
  const addUsage = async ({ id }: typeof one, daysAgo: number, requests: number): Promise<string> => {
    const { rows } = await database.query(
      `insert into service.api_key_usage values ($1, (now() at time zone 'utc')::date - $2::int, $3, now())
        returning day::text`,
      [id, daysAgo, requests],
    );
    return rows[0]?.day;
  };
  const ofOne = [
    `${await addUsage(one, 0, 3)} one 3`,
    `${await addUsage(one, 1, 7)} one 7`,
    `${await addUsage(one, 29, 11)} one 11`,
  ];
  const ofOther = [`${await addUsage(other, 0, 5)} other 5`, `${await addUsage(other, 30, 13)} other 13`];
  const [newest = "", oldest = ""] = ofOther;

  const read = async (...args: string[]) =>
    readTable((await keys(databaseUrl, "usage", ...args)).stdout).map(({ DAY, NAME, PREFIX, REQUESTS }) => {
      expect(PREFIX).toBe(prefixOf(NAME === "one" ? one.key : other.key));
      return `${DAY} ${NAME} ${REQUESTS}`;
    });
  const all = [newest, ...ofOne];
  expect(await read()).toEqual(all);
  expect(await read("--days", "1")).toEqual(all.slice(0, 2));
  expect(await read("--days", "31")).toEqual([...all, oldest]);
  expect(await read("one")).toEqual(ofOne);
  expect(await read(other.key, "--days", "99")).toEqual(ofOther);
});

describe("revoke", () => {
  test.for<[string, (key: string) => string]>([
    ["its prefix", prefixOf],
    ["its name", () => "by its name"],
    ["the key itself", (key) => key],
  ])("finds the key by %s, and revokes no other", async ([what, wordFor], { databaseUrl, database }) => {
    const { key } = await addKey(database, `by ${what}`);
    const other = await addKey(database, "stays");
    const { stdout, stderr } = await keys(databaseUrl, "revoke", wordFor(key));
    expect(stdout).toBe("");
    expect(stderr).toMatch(/^The key delreg_\w{8} of "by .*" is revoked\. Within a minute/m);
    expect(stderr).toContain(prefixOf(key));
    expect(stderr).not.toContain(extractSecret(key));
    expect(await revokedAt(database, key)).toBeInstanceOf(Date);
    expect(await revokedAt(database, other.key)).toBeNull();
  });

  test("keeps the time of an already revoked key", async ({ databaseUrl, database }) => {
    const { key, id } = await addKey(database, "long gone");
    const time = new Date("2024-03-01T12:34:56Z");
    await database.query("update service.api_key set revoked_at = $1 where id = $2", [time, id]);
    const { stderr } = await keys(databaseUrl, "revoke", "long gone");
    expect(stderr).toContain("was already revoked at 2024-03-01 12:34");
    expect(await revokedAt(database, key)).toEqual(time);
  });

  test("fails for a name of several active keys, and lists their prefixes", async ({ databaseUrl, database }) => {
    const addTwin = async () => (await addKey(database, "twice")).key;
    const [first, second, gone] = [await addTwin(), await addTwin(), await addTwin()];
    await revokeAddedKey(database, gone);
    const stderr = await fail(databaseUrl, "revoke", "twice");
    expect(stderr).toContain(prefixOf(first));
    expect(stderr).toContain(prefixOf(second));
    expect(stderr).not.toContain(prefixOf(gone));
    expect(await revokedAt(database, first)).toBeNull();

    // One active key of this name is left.
    await revokeAddedKey(database, first);
    expect((await keys(databaseUrl, "revoke", "twice")).stderr).toContain(prefixOf(second));
    expect(await revokedAt(database, second)).toBeInstanceOf(Date);
  });

  test("fails for an unknown key, and does not repeat it, as it may be a mistyped key", async ({
    databaseUrl,
    database,
  }) => {
    const { key } = await addKey(database, "Somebody");
    const { host, pathname } = new URL(databaseUrl);
    const reason = `Database ${host}${pathname}\nThere is no such key. "npm run keys -- list" lists all keys.\n`;
    for (const text of [misspellKey(key), "somebody", "delreg_", `${prefixOf(key)}0`, "%", "' or true --"]) {
      expect(await fail(databaseUrl, "revoke", text), text).toBe(reason);
    }
    expect(await revokedAt(database, key)).toBeNull();
  });

  test("takes a text that begins like a key for a prefix, never for a name", async ({ databaseUrl, database }) => {
    const { key } = await addKey(database, "the operator's own");
    const impostor = await addKey(database, prefixOf(key));
    const { stderr } = await keys(databaseUrl, "revoke", prefixOf(key));
    expect(stderr).toContain('of "the operator\'s own" is revoked');
    expect(await revokedAt(database, impostor.key)).toBeNull();
    const nowhere = await addKey(database, "delreg_nowhere0");
    await fail(databaseUrl, "revoke", "delreg_nowhere0");
    expect(await revokedAt(database, nowhere.key)).toBeNull();
  });
});

describe("bad arguments", () => {
  test.for([
    "",
    "help",
    "create",
    "create --name",
    "create --title Example",
    "list all",
    "usage one other",
    "usage --days many",
    "revoke",
    "revoke --all",
  ])("print the usage and exit with code 1: '%s'", async (line, { databaseUrl }) => {
    const stderr = await fail(databaseUrl, ...line.split(" ").filter(Boolean));
    expect(stderr).toContain("npm run keys -- <command>");
    for (const command of ["create --name <name>", "list", "usage", "revoke <key>"]) expect(stderr).toContain(command);
  });

  test.for(["list KEY", "create KEY", "KEY", "revoke KEY KEY", "usage KEY KEY", "list --KEY"])(
    "are not repeated if they contain a key: %s",
    async (line, { databaseUrl, database }) => {
      const { key } = await addKey(database);
      expect(await fail(databaseUrl, ...line.replaceAll("KEY", key).split(" "))).not.toContain(extractSecret(key));
    },
  );
});

test("npm run keys without DATABASE_URL explains what to set, or finds the Postgres of a running npm start", async () => {
  // Uses a copy of the project, as npm start may be running in the project itself.
  const directory = await mkdtemp(join(tmpdir(), "delegation-registry-keys-"));
  await chmod(directory, 0o755);
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  for (const part of ["api", "commands", "local", "process", "registry", "package.json"]) {
    await cp(join(ROOT, part), join(directory, part), { recursive: true });
  }
  await symlink(join(ROOT, "node_modules"), join(directory, "node_modules"));
  const runNpm = (...args: string[]): Promise<Awaited<ReturnType<typeof runKeys>>> =>
    new Promise((resolve) => {
      const options = { cwd: directory, env: { PATH: process.env.PATH, HOME: process.env.HOME }, timeout: 60_000 };
      execFile("npm", ["run", "-s", "keys", "--", ...args], options, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
      );
    });

  const refused = await runNpm("list");
  expect(refused).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("set DATABASE_URL") });
  expect(refused.stderr).toContain("npm start");
  expect(refused.stderr).not.toMatch(/^\s+at /m);

  const postgres = await startEmbeddedPostgres({ directory: join(directory, ".data/postgres"), disposable: true });
  onTestFinished(() => postgres.stop());
  const { code, stdout, stderr } = await runNpm("create", "--name", "own");
  expect(code, stderr).toBe(0);
  const database = await connectClient(postgres.url);
  const { rows } = await database.query("select prefix from service.api_key");
  expect(rows).toEqual([{ prefix: prefixOf(stdout) }]);
  expect(stdout).toMatch(/^\S+\n$/);
});
