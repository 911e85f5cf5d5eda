import { execFile } from "node:child_process";
import { chmod, cp, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { generateKey, isWellFormed, prefixOf } from "../../api/keys/api-key.ts";
import { keysCommand } from "../../api/keys/keys-command.ts";
import { migrate } from "../../api/migrate.ts";
import { startEmbeddedPostgres } from "../../stack/embedded-postgres.ts";
import { findFreePort } from "../../stack/ports.ts";
import { CHECK, createSampleDatabase, FRESH_FOR_A_DAY, startApi } from "../support/api.ts";
import { addKey, endKey, misspell, secretOf } from "../support/keys.ts";
import { connect, createDatabase } from "../support/setup.ts";

const ROOT = join(import.meta.dirname, "../..");

type Outcome = { code: number; stdout: string; stderr: string };

/** The command in this process. */
const runKeys = async (args: string[], databaseUrl: string): Promise<Outcome> => {
  const [stdout, stderr]: [string[], string[]] = [[], []];
  const code = await keysCommand(args, {
    environment: { DATABASE_URL: databaseUrl },
    print: (text) => stdout.push(text, "\n"),
    say: (text) => stderr.push(text, "\n"),
  });
  return { code, stdout: stdout.join(""), stderr: stderr.join("") };
};

/** Its output where it succeeds. */
const keys = async (databaseUrl: string, ...args: string[]): Promise<Omit<Outcome, "code">> => {
  const { code, stdout, stderr } = await runKeys(args, databaseUrl);
  expect(code, stderr).toBe(0);
  return { stdout, stderr };
};

/** The lines of a table, by the names of their columns. */
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

/** Expects a time that is a minute ago or less. */
const expectNow = (text = "") => {
  expect(text).toMatch(MINUTE);
  const age = Date.now() - Date.parse(`${text.replace(" ", "T")}Z`);
  expect(age).toBeGreaterThanOrEqual(0);
  expect(age).toBeLessThan(120_000);
};

test("create prints only the key, which is accepted at once, stored nowhere, and listed by its prefix with its use", async () => {
  const databaseUrl = await createSampleDatabase();
  const client = await connect(databaseUrl);
  const api = await startApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const ask = async (key: string) => (await api.get(CHECK, { headers: { "X-API-KEY": key } })).status;

  const { stdout, stderr } = await keys(databaseUrl, "create", "--name", " Example, Inc. ");
  const key = stdout.trimEnd();
  expect(stdout).toBe(`${key}\n`);
  expect(isWellFormed(key), key).toBe(true);
  expect(stderr).toContain('"Example, Inc."');
  expect(stderr).not.toContain(prefixOf(key));

  expect(await ask(key)).toBe(200);
  expect(await ask(key)).toBe(200);
  expect(await ask(misspell(key))).toBe(401);
  expect(await ask(generateKey())).toBe(401);
  // It writes down how often the key was used.
  await api.stop();

  const { rows } = await client.query("select tablename from pg_tables where schemaname = 'service'");
  const stored: string[] = [];
  for (const { tablename } of rows) {
    const table = await client.query(`select t::text as text from service.${tablename} t`);
    stored.push(...table.rows.map(({ text }) => text));
  }
  expect(stored.join("\n")).toContain(prefixOf(key));
  expect(stored.join("\n")).not.toContain(secretOf(key));

  const list = await keys(databaseUrl, "list");
  expect(list.stdout + list.stderr).not.toContain(secretOf(key));
  const [{ CREATED, "LAST USED": lastUsed, ...others } = {}] = readTable(list.stdout);
  expect(others).toEqual({ NAME: "Example, Inc.", PREFIX: prefixOf(key), REQUESTS: "2", STATE: "active" });
  expectNow(CREATED);
  expectNow(lastUsed);

  const usage = await keys(databaseUrl, "usage");
  expect(readTable(usage.stdout)).toEqual([
    { DAY: lastUsed?.slice(0, 10), NAME: "Example, Inc.", PREFIX: prefixOf(key), REQUESTS: "2" },
  ]);
  expect(usage.stdout).not.toContain(secretOf(key));
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

  test("the first command on an empty database makes the tables, and says that there are no keys", async () => {
    const empty = await createDatabase();
    const { stdout, stderr } = await keys(empty, "list");
    expect(stdout).toBe("");
    expect(stderr).toContain("There are no keys");
    expect((await keys(empty, "usage")).stderr).toContain("No requests with a key in the last 30 days");
  });

  test("list shows every key: used or not, revoked or not", async () => {
    const own = await createDatabase();
    await migrate(own);
    const database = await connect(own);
    const [used, unused, revoked] = [
      await addKey(database, "used"),
      await addKey(database, "a name with  two spaces in it"),
      await addKey(database, "gone"),
    ];
    await database.query("update service.api_key set created_at = '2024-02-29 23:59:59.999+00' where id = $1", [
      used.id,
    ]);
    await endKey(database, revoked.key);
    await database.query(
      `insert into service.api_key_usage values
        ($1, '2024-03-01', 9007199254740993, '2024-03-01 12:34:56+00'), ($1, '2024-03-02', 7, '2024-03-02 01:02:03+00'),
        ($2, '2024-03-01', 1, '2024-03-01 00:00:00+00')`,
      [used.id, revoked.id],
    );
    const { stdout } = await keys(own, "list");
    for (const { key } of [used, unused, revoked]) expect(stdout).not.toContain(secretOf(key));
    const lines = stdout.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^NAME +PREFIX +CREATED +LAST USED +REQUESTS +STATE$/);
    expect(lines.slice(1).map((line) => line.split(/ {3,}| {2}(?!two)/))).toEqual([
      ["used", prefixOf(used.key), "2024-02-29 23:59", "2024-03-02 01:02", "9007199254741000", "active"],
      ["a name with  two spaces in it", prefixOf(unused.key), expect.stringMatching(MINUTE), "never", "0", "active"],
      ["gone", prefixOf(revoked.key), expect.stringMatching(MINUTE), "2024-03-01 00:00", "1", expect.any(String)],
    ]);
    const [, gone] = /revoked (.*)$/.exec(lines[3] ?? "") ?? [];
    expectNow(gone);
  });

  test("usage shows requests by key and day: of 30 days or --days, of all keys or one", async () => {
    const own = await createDatabase();
    await migrate(own);
    const database = await connect(own);
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
    expect(stderr).toMatch(/^The key delreg_\w{4} of "by .*" is revoked\. Within a minute/m);
    expect(stderr).toContain(prefixOf(key));
    expect(stderr).not.toContain(secretOf(key));
    expect(await revokedAt(key)).toBeInstanceOf(Date);
    expect(await revokedAt(other.key)).toBeNull();
  });

  test("revoke keeps the time of a key that was revoked before", async () => {
    const { key } = await addKey(client, "long gone");
    await client.query("update service.api_key set revoked_at = '2024-03-01 12:34:56+00' where prefix = $1", [
      prefixOf(key),
    ]);
    expect((await keys(databaseUrl, "revoke", "long gone")).stderr).toContain(
      "was revoked at 2024-03-01 12:34 already",
    );
    expect(await revokedAt(key)).toEqual(new Date("2024-03-01T12:34:56Z"));
  });

  test("revoke by a name of several active keys fails, lists their prefixes, and revokes none", async () => {
    const [first, second, gone] = [
      await addKey(client, "twice"),
      await addKey(client, "twice"),
      await addKey(client, "twice"),
    ];
    await endKey(client, gone.key);
    const { code, stdout, stderr } = await runKeys(["revoke", "twice"], databaseUrl);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toContain(prefixOf(first.key));
    expect(stderr).toContain(prefixOf(second.key));
    expect(stderr).not.toContain(prefixOf(gone.key));
    expect(await revokedAt(first.key)).toBeNull();

    // Only one active key of this name is left.
    await endKey(client, first.key);
    expect((await keys(databaseUrl, "revoke", "twice")).stderr).toContain(prefixOf(second.key));
    expect(await revokedAt(second.key)).toBeInstanceOf(Date);
  });

  test("revoke fails for an unknown key, and does not repeat it, as it may be a key with a typo", async () => {
    const { key } = await addKey(client, "Somebody");
    const texts = [misspell(key), "somebody", "delreg_", `${prefixOf(key)}0`, "%", "' or true --"];
    const { host, pathname } = new URL(databaseUrl);
    const stderr = `Database ${host}${pathname}\nThere is no such key. "npm run keys -- list" shows all.\n`;
    for (const text of texts) {
      expect(await runKeys(["revoke", text], databaseUrl)).toEqual({ code: 1, stdout: "", stderr });
    }
    expect(await revokedAt(key)).toBeNull();
  });

  test("two keys may have the same name", async () => {
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

  test("a key among bad arguments is not repeated", async () => {
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
      expect(stdout + stderr).not.toContain(secretOf(key));
    }
  });
});

test.for<[string, () => string | Promise<string>, string]>([
  ["is out of reach", async () => `postgres://me:hunter2@127.0.0.1:${await findFreePort()}/keys`, "ECONNREFUSED"],
  [
    "refuses the password",
    async () => (await createDatabase()).replace(/:[^:@]+@/, ":hunter2@"),
    "password authentication failed",
  ],
  ["is not Postgres", () => "mysql://me:hunter2@127.0.0.1/keys", "DATABASE_URL must be a postgres:// URL"],
])("a database that %s fails the command with the reason, without the password", async ([, urlOf, reason]) => {
  const { code, stdout, stderr } = await runKeys(["list"], await urlOf());
  expect([code, stdout]).toEqual([1, ""]);
  expect(stderr).toContain(reason);
  expect(stderr).not.toContain("hunter2");
});

test("npm run keys without DATABASE_URL says what to do, and finds the Postgres of a running npm start", async () => {
  // In a copy of the project: in the project itself, npm start may be running.
  const directory = await mkdtemp(join(tmpdir(), "delegation-registry-keys-"));
  await chmod(directory, 0o755);
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  for (const part of ["api", "registry", "stack", "package.json"]) {
    await cp(join(ROOT, part), join(directory, part), { recursive: true });
  }
  await symlink(join(ROOT, "node_modules"), join(directory, "node_modules"));
  const runNpm = (...args: string[]): Promise<Outcome> =>
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
  const database = await connect(postgres.url);
  const { rows } = await database.query("select prefix from service.api_key");
  expect(rows).toEqual([{ prefix: prefixOf(stdout) }]);
  expect(stdout).toMatch(/^\S+\n$/);
});
