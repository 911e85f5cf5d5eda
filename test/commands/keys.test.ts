import { execFile } from "node:child_process";
import { chmod, cp, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { migrate } from "../../api/database/migrate.ts";
import { generateKey, isWellFormed, prefixOf } from "../../api/keys/api-key.ts";
import { startEmbeddedPostgres } from "../../local/embedded-postgres.ts";
import { findFreePort } from "../../process/ports.ts";
import { CHECK, createSampleDatabase, FRESH_FOR_A_DAY, startTestApi } from "../support/api.ts";
import { addKey, extractSecret, misspellKey, revokeAddedKey } from "../support/keys.ts";
import { ROOT, runKeys } from "../support/run.ts";
import { connectClient, createDatabase } from "../support/setup.ts";

/** Runs the command, and expects success. */
const keys = async (databaseUrl: string, ...args: string[]) => {
  const { code, stdout, stderr } = await runKeys(args, databaseUrl);
  expect(code, stderr).toBe(0);
  return { stdout, stderr };
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
  expect(others).toEqual({
    NAME: "Example, Inc.",
    PREFIX: prefixOf(key),
    OWNER: "operator",
    REQUESTS: "2",
    STATE: "active",
  });
  expectNow(CREATED);
  expectNow(lastUsed);

  const usage = await keys(databaseUrl, "usage");
  expect(readTable(usage.stdout)).toEqual([
    { DAY: lastUsed?.slice(0, 10), NAME: "Example, Inc.", PREFIX: prefixOf(key), REQUESTS: "2" },
  ]);
  expect(usage.stdout).not.toContain(extractSecret(key));
});

describe("block and unblock", () => {
  const OWNER = `0x${"aB".repeat(20)}`;

  test("change the state of an owner's keys in the list, of that owner only", async () => {
    const databaseUrl = await createDatabase();
    await migrate(databaseUrl);
    const client = await connectClient(databaseUrl);
    for (const [index, owner] of [OWNER.toLowerCase(), `eip155:137:${OWNER.toLowerCase()}`].entries()) {
      const { id } = await addKey(client, `key ${index}`);
      await client.query("update service.api_key set owner = $1, slot = 1 where id = $2", [owner, id]);
    }
    const listStates = async () =>
      readTable((await keys(databaseUrl, "list")).stdout).map(({ OWNER: owner, STATE }) => [owner, STATE]);
    const [plain, contract] = [OWNER.toLowerCase(), `eip155:137:${OWNER.toLowerCase()}`];
    expect((await keys(databaseUrl, "block", OWNER)).stderr).toContain(`${plain} is blocked`);
    expect(await listStates()).toEqual([
      [plain, "blocked"],
      [contract, "active"],
    ]);
    await keys(databaseUrl, "block", OWNER);
    await keys(databaseUrl, "unblock", OWNER);
    expect((await keys(databaseUrl, "unblock", OWNER)).stderr).toContain("was not blocked");
    expect(await listStates()).toEqual([
      [plain, "active"],
      [contract, "active"],
    ]);
  });

  test.for([[], ["delreg_abc"], [OWNER, OWNER], [OWNER.slice(1)]])("refuse what is no owner: %j", async (args) => {
    const { code, stderr } = await runKeys(["block", ...args], "postgres://127.0.0.1:1/none");
    expect(code).toBe(1);
    expect(stderr).toContain("block <owner>");
  });
});

describe("list, usage and revoke", () => {
  let databaseUrl: string;
  let client: pg.Client;
  beforeAll(async () => {
    databaseUrl = await createDatabase();
    await migrate(databaseUrl);
    client = new pg.Client(databaseUrl);
    await client.connect();
  });
  afterAll(() => client?.end());

  const revokedAt = async (key: string): Promise<Date | null> => {
    const { rows } = await client.query("select revoked_at from service.api_key where prefix = $1", [prefixOf(key)]);
    return rows[0]?.revoked_at;
  };

  test("the first command creates the tables, and reports that there are no keys", async () => {
    const empty = await createDatabase();
    const { stdout, stderr } = await keys(empty, "list");
    expect(stdout).toBe("");
    expect(stderr).toContain("There are no keys");
    expect((await keys(empty, "usage")).stderr).toContain("No requests with a key in the last 30 days");
  });

  test("list shows used, unused and revoked keys", async () => {
    const own = await createDatabase();
    await migrate(own);
    const database = await connectClient(own);
    const [used, unused, revoked] = [
      await addKey(database, "used"),
      await addKey(database, "a name with  two spaces in it"),
      await addKey(database, "gone"),
    ];
    await database.query("update service.api_key set created_at = '2024-02-29 23:59:59.999+00' where id = $1", [
      used.id,
    ]);
    await revokeAddedKey(database, revoked.key);
    await database.query(
      `insert into service.api_key_usage values
        ($1, '2024-03-01', 9007199254740993, '2024-03-01 12:34:56+00'), ($1, '2024-03-02', 7, '2024-03-02 01:02:03+00'),
        ($2, '2024-03-01', 1, '2024-03-01 00:00:00+00')`,
      [used.id, revoked.id],
    );
    const { stdout } = await keys(own, "list");
    for (const { key } of [used, unused, revoked]) expect(stdout).not.toContain(extractSecret(key));
    const lines = stdout.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^NAME +PREFIX +OWNER +CREATED +LAST USED +REQUESTS +STATE$/);
    expect(lines.slice(1).map((line) => line.split(/ {3,}| {2}(?!two)/))).toEqual([
      ["used", prefixOf(used.key), "operator", "2024-02-29 23:59", "2024-03-02 01:02", "9007199254741000", "active"],
      [
        "a name with  two spaces in it",
        prefixOf(unused.key),
        "operator",
        expect.stringMatching(MINUTE),
        "never",
        "0",
        "active",
      ],
      [
        "gone",
        prefixOf(revoked.key),
        "operator",
        expect.stringMatching(MINUTE),
        "2024-03-01 00:00",
        "1",
        expect.any(String),
      ],
    ]);
    const [, gone] = /revoked (.*)$/.exec(lines[3] ?? "") ?? [];
    expectNow(gone);
  });

  test("usage shows requests by key and day, of 30 days or --days, of all keys or one", async () => {
    const own = await createDatabase();
    await migrate(own);
    const database = await connectClient(own);
    const [one, other] = [await addKey(database, "one"), await addKey(database, "other")];
    const counts: [string, number, number][] = [
      [one.id, 0, 3],
      [other.id, 0, 5],
      [one.id, 1, 7],
      [one.id, 29, 11],
      [other.id, 30, 13],
    ];
    const days = new Map<number, string>();
    for (const [id, daysAgo, requests] of counts) {
      const { rows } = await database.query(
        `insert into service.api_key_usage values ($1, (now() at time zone 'utc')::date - $2::int, $3, now())
          returning day::text`,
        [id, daysAgo, requests],
      );
      days.set(daysAgo, rows[0]?.day);
    }
    const read = async (...args: string[]) =>
      readTable((await keys(own, "usage", ...args)).stdout).map(({ DAY, NAME, PREFIX, REQUESTS }) => {
        expect(PREFIX).toBe(prefixOf(NAME === "one" ? one.key : other.key));
        return `${DAY} ${NAME} ${REQUESTS}`;
      });
    const [today, yesterday, oldest, before] = [0, 1, 29, 30].map((daysAgo) => days.get(daysAgo));

    const ofOne = [`${today} one 3`, `${yesterday} one 7`, `${oldest} one 11`];
    const all = [`${today} other 5`, ...ofOne];
    expect(await read()).toEqual(all);
    expect(await read("--days", "1")).toEqual(all.slice(0, 2));
    expect(await read("--days", "31")).toEqual([...all, `${before} other 13`]);
    expect(await read("one")).toEqual(ofOne);
    expect(await read(other.key, "--days", "99")).toEqual([`${today} other 5`, `${before} other 13`]);
  });

  test.each([
    ["its prefix", (key: string) => prefixOf(key)],
    ["its name", () => "by its name"],
    ["the key itself", (key: string) => key],
  ])("revoke finds the key by %s, and revokes no other", async (what, wordFor) => {
    const { key } = await addKey(client, `by ${what}`);
    const other = await addKey(client, "stays");
    const { stdout, stderr } = await keys(databaseUrl, "revoke", wordFor(key));
    expect(stdout).toBe("");
    expect(stderr).toMatch(/^The key delreg_\w{8} of "by .*" is revoked\. Within a minute/m);
    expect(stderr).toContain(prefixOf(key));
    expect(stderr).not.toContain(extractSecret(key));
    expect(await revokedAt(key)).toBeInstanceOf(Date);
    expect(await revokedAt(other.key)).toBeNull();
  });

  test("revoke keeps the time of an already revoked key", async () => {
    const { key } = await addKey(client, "long gone");
    await client.query("update service.api_key set revoked_at = '2024-03-01 12:34:56+00' where prefix = $1", [
      prefixOf(key),
    ]);
    expect((await keys(databaseUrl, "revoke", "long gone")).stderr).toContain(
      "was already revoked at 2024-03-01 12:34",
    );
    expect(await revokedAt(key)).toEqual(new Date("2024-03-01T12:34:56Z"));
  });

  test("revoke fails for a name of several active keys, and lists their prefixes", async () => {
    const [first, second, gone] = [
      await addKey(client, "twice"),
      await addKey(client, "twice"),
      await addKey(client, "twice"),
    ];
    await revokeAddedKey(client, gone.key);
    const { code, stdout, stderr } = await runKeys(["revoke", "twice"], databaseUrl);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toContain(prefixOf(first.key));
    expect(stderr).toContain(prefixOf(second.key));
    expect(stderr).not.toContain(prefixOf(gone.key));
    expect(await revokedAt(first.key)).toBeNull();

    // One active key of this name is left.
    await revokeAddedKey(client, first.key);
    expect((await keys(databaseUrl, "revoke", "twice")).stderr).toContain(prefixOf(second.key));
    expect(await revokedAt(second.key)).toBeInstanceOf(Date);
  });

  test("revoke fails for an unknown key, and does not repeat it, as it may be a mistyped key", async () => {
    const { key } = await addKey(client, "Somebody");
    const texts = [misspellKey(key), "somebody", "delreg_", `${prefixOf(key)}0`, "%", "' or true --"];
    const { host, pathname } = new URL(databaseUrl);
    const stderr = `Database ${host}${pathname}\nThere is no such key. "npm run keys -- list" lists all keys.\n`;
    for (const text of texts) {
      expect(await runKeys(["revoke", text], databaseUrl)).toEqual({ code: 1, stdout: "", stderr });
    }
    expect(await revokedAt(key)).toBeNull();
  });

  test("revoke takes a text that begins like a key for a prefix, never for a name", async () => {
    const { key } = await addKey(client, "the operator's own");
    const impostor = await addKey(client, prefixOf(key));
    expect((await keys(databaseUrl, "revoke", prefixOf(key))).stderr).toContain('of "the operator\'s own" is revoked');
    expect(await revokedAt(impostor.key)).toBeNull();
    const nowhere = await addKey(client, "delreg_nowhere0");
    expect((await runKeys(["revoke", "delreg_nowhere0"], databaseUrl)).code).toBe(1);
    expect(await revokedAt(nowhere.key)).toBeNull();
  });

  test.for([
    ["delreg_a1B2c3D4", "must not begin like a key"],
    ["\u001b[2Jgone", "must be 1 to 64 characters of plain text"],
    ["x".repeat(65), "must be 1 to 64 characters of plain text"],
  ])("create refuses the name %j", async ([name = "", reason = ""]) => {
    const { code, stdout, stderr } = await runKeys(["create", "--name", name], databaseUrl);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toContain(`The name ${reason}`);
  });

  test("create ends if every prefix is taken", async () => {
    const own = await createDatabase();
    await migrate(own);
    const database = await connectClient(own);
    await database.query(`
      create function service.refuse() returns trigger language plpgsql as 'begin return null; end';
      create trigger refuse before insert on service.api_key for each row execute function service.refuse()`);
    const { code, stdout, stderr } = await runKeys(["create", "--name", "none"], own);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toContain("No key could be made");
  });

  test("create accepts a name that another key has", async () => {
    const create = () => keys(databaseUrl, "create", "--name", "same");
    expect((await create()).stdout).not.toBe((await create()).stdout);
    const { rows } = await client.query("select from service.api_key where name = 'same'");
    expect(rows).toHaveLength(2);
  });

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
  ])("bad arguments print the usage and exit with code 1: '%s'", async (line) => {
    const args = line.split(" ").filter((word) => word !== "");
    const { code, stdout, stderr } = await runKeys(args, databaseUrl);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toContain("npm run keys -- <command>");
    for (const command of ["create --name <name>", "list", "usage", "revoke <key>"]) expect(stderr).toContain(command);
  });

  test("bad arguments are not repeated if they contain a key", async () => {
    const { key } = await addKey(client);
    const lines = [
      ["list", key],
      ["create", key],
      [key],
      ["revoke", key, key],
      ["usage", key, key],
      ["list", `--${key}`],
    ];
    for (const args of lines) {
      const { code, stdout, stderr } = await runKeys(args, databaseUrl);
      expect(code).toBe(1);
      expect(stdout + stderr).not.toContain(extractSecret(key));
    }
  });
});

test.for<[string, () => string | Promise<string>, string]>([
  ["is unreachable", async () => `postgres://me:hunter2@127.0.0.1:${await findFreePort()}/keys`, "ECONNREFUSED"],
  [
    "refuses the password",
    async () => (await createDatabase()).replace(/:[^:@]+@/, ":hunter2@"),
    "password authentication failed",
  ],
  ["is not Postgres", () => "mysql://me:hunter2@127.0.0.1/keys", "DATABASE_URL must be a postgres:// URL"],
])("list fails with the reason and without the password for a database that %s", async ([, urlOf, reason]) => {
  const { code, stdout, stderr } = await runKeys(["list"], await urlOf());
  expect([code, stdout]).toEqual([1, ""]);
  expect(stderr).toContain(reason);
  expect(stderr).not.toContain("hunter2");
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
      const env = { PATH: process.env.PATH, HOME: process.env.HOME };
      const options = { cwd: directory, env, timeout: 60_000 };
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
