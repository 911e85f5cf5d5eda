import pg from "pg";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { BatchLoad } from "../../../api/database/batch-queue.ts";
import { Database } from "../../../api/database/database.ts";
import { migrate } from "../../../api/database/migrate.ts";
import type { Statement } from "../../../api/database/statement.ts";
import { generateKey, hashKey } from "../../../api/keys/api-key.ts";
import { KeyDirectory } from "../../../api/keys/key-directory.ts";
import { Problem } from "../../../api/problem.ts";
import { addKey, misspellKey, revokeAddedKey } from "../../support/keys.ts";
import { createDatabase } from "../../support/setup.ts";

const MINUTE = 60_000;

let url: string;
let client: pg.Client;
beforeAll(async () => {
  url = await createDatabase();
  await migrate(url);
  client = new pg.Client(url);
  await client.connect();
});
afterAll(() => client?.end());

/** Counts lookups. */
class WatchedDatabase extends Database {
  statements = 0;
  /** Number of lookups by hash. */
  readonly #lookups = new Map<string, number>();
  /** Runs between a lookup and its result. */
  meanwhile: () => Promise<void> = async () => {};

  override async read<Row>(...[pool, statement, values]: Parameters<Database["read"]>): Promise<Row[]> {
    this.statements++;
    for (const hash of values.hashes as string[]) this.#lookups.set(hash, (this.#lookups.get(hash) ?? 0) + 1);
    const rows = await super.read(pool, statement as Statement<Row>, values);
    await this.meanwhile();
    return rows;
  }

  countLookups(key: string): number {
    return this.#lookups.get(hashKey(key)) ?? 0;
  }

  countAllLookups(): number {
    return [...this.#lookups.values()].reduce((sum, count) => sum + count, 0);
  }
}

const createDirectory = () => {
  const database = new WatchedDatabase(url, pino({ enabled: false }));
  onTestFinished(() => database.close());
  const clock = { now: 1_000_000 };
  const directory = new KeyDirectory(database, new BatchLoad(), () => clock.now);
  return { database, clock, directory };
};

/** Finds many keys in groups, so that their order is known. */
const findAll = async (directory: KeyDirectory, keys: readonly string[]) => {
  for (let start = 0; start < keys.length; start += 500) {
    await Promise.all(keys.slice(start, start + 500).map((key) => directory.find(key)));
  }
};

describe("find()", () => {
  test("returns the id of a known key", async () => {
    const { directory } = createDirectory();
    const [one, other] = [await addKey(client), await addKey(client)];
    expect(await directory.find(one.key)).toEqual({ isKnown: true, id: one.id, owner: null });
    expect(await directory.find(other.key)).toEqual({ isKnown: true, id: other.id, owner: null });
  });

  test("returns a reason for a misspelt, an unknown and a revoked key", async () => {
    const { directory } = createDirectory();
    const { key } = await addKey(client);
    const revoked = await addKey(client);
    await revokeAddedKey(client, revoked.key);

    const findings = await Promise.all([
      directory.find(misspellKey(key)),
      directory.find(generateKey()),
      directory.find(revoked.key),
    ]);
    expect(findings).toEqual([
      { isKnown: false, reason: expect.stringMatching(/misspelt or cut off.*Copy the key again/) },
      { isKnown: false, reason: expect.stringMatching(/is unknown.*Leave out X-API-KEY/) },
      { isKnown: false, reason: expect.stringMatching(/revoked.*Use another one/) },
    ]);
  });

  test("returns the right id for each key of a batch", async () => {
    const { directory } = createDirectory();
    const asked: { key: string; id: string | null }[] = [];
    for (let index = 0; index < 100; index++) asked.push(await addKey(client), { key: generateKey(), id: null });
    const found = await Promise.all(asked.map(({ key }) => directory.find(key)));
    expect(found.map((key) => (key.isKnown ? key.id : null))).toEqual(asked.map(({ id }) => id));
  });
});

describe("find() looks a key up", () => {
  test("at most once a minute if it is known, unknown or revoked", async () => {
    const { directory, database, clock } = createDirectory();
    const [known, revoked, unknown] = [await addKey(client), await addKey(client), { key: generateKey() }];
    await revokeAddedKey(client, revoked.key);
    const keys = [known.key, revoked.key, unknown.key];

    const startedAt = clock.now;
    for (let minute = 1; minute <= 3; minute++) {
      for (const ms of [0, 1, 30_000, MINUTE - 1]) {
        clock.now = startedAt + (minute - 1) * MINUTE + ms;
        for (let use = 0; use < 100; use++) await Promise.all(keys.map((key) => directory.find(key)));
        expect(keys.map((key) => database.countLookups(key))).toEqual([minute, minute, minute]);
      }
    }
  });

  test("once for a hundred concurrent requests, at first and when its minute is over", async () => {
    const { directory, database, clock } = createDirectory();
    const { key, id } = await addKey(client);
    for (const lookups of [1, 2]) {
      const found = await Promise.all(Array.from({ length: 100 }, () => directory.find(key)));
      expect(found).toEqual(Array(100).fill({ isKnown: true, id, owner: null }));
      expect(database.countLookups(key)).toBe(lookups);
      clock.now += MINUTE;
    }
  });

  test("never if it is misspelt", async () => {
    const { directory, database } = createDirectory();
    const { key } = await addKey(client);
    for (const text of [misspellKey(key), ` ${key}`, key.slice(0, -1), `${key}0`, "", "undefined", "k".repeat(4000)]) {
      expect(await directory.find(text)).toMatchObject({ isKnown: false, reason: expect.stringContaining("misspelt") });
    }
    expect(database.statements).toBe(0);
  });

  test("together with concurrent others, in few statements", async () => {
    const { directory, database } = createDirectory();
    await findAll(directory, Array.from({ length: 500 }, generateKey));
    expect(database.countAllLookups()).toBe(500);
    expect(database.statements).toBeLessThan(20);
  });

  test("at most once a minute after its row was deleted", async () => {
    const { directory, database, clock } = createDirectory();
    const { key } = await addKey(client);
    await directory.find(key);
    await client.query("delete from service.api_key where hash = $1", [hashKey(key)]);
    clock.now += MINUTE;
    for (let use = 0; use < 10; use++) {
      expect(await directory.find(key)).toMatchObject({ isKnown: false, reason: expect.stringContaining("unknown") });
    }
    expect(database.countLookups(key)).toBe(2);
  });
});

describe("find() notices within a minute", () => {
  const CASES = [1, 30_000, MINUTE - 1].flatMap((ms) => [
    { ms, over: "one connection", connectionOf: (connection: object) => connection },
    { ms, over: "a new connection each time", connectionOf: () => ({}) },
  ]);
  test.for(CASES)("a key that is revoked $ms ms after its lookup, over $over", async ({ ms, connectionOf }) => {
    const { directory, clock } = createDirectory();
    const { key } = await addKey(client);
    const connection = {};
    const find = () => directory.find(key, connectionOf(connection));
    for (let use = 0; use < 2; use++) expect(await find()).toMatchObject({ isKnown: true });
    clock.now += ms;
    expect(await find()).toMatchObject({ isKnown: true });
    await revokeAddedKey(client, key);
    clock.now += MINUTE - ms;
    expect(await find()).toMatchObject({ isKnown: false, reason: expect.stringContaining("revoked") });
  });

  test("a key that is revoked during a slow lookup", async () => {
    const { directory, database, clock } = createDirectory();
    const { key } = await addKey(client);
    let revokedAt = 0;
    database.meanwhile = async () => {
      await revokeAddedKey(client, key);
      revokedAt = clock.now;
      clock.now += 1_400;
    };
    expect(await directory.find(key)).toMatchObject({ isKnown: true });
    database.meanwhile = async () => {};
    clock.now = revokedAt + MINUTE;
    expect(await directory.find(key)).toMatchObject({ isKnown: false, reason: expect.stringContaining("revoked") });
  });

  test("a key that was asked for before it was made", async () => {
    const { directory, clock } = createDirectory();
    const key = generateKey();
    expect(await directory.find(key)).toMatchObject({ isKnown: false, reason: expect.stringContaining("unknown") });
    const { rows } = await client.query(
      "insert into service.api_key (name, prefix, hash) values ('late', $1, $2) returning id",
      [key.slice(0, 11), hashKey(key)],
    );
    clock.now += MINUTE;
    expect(await directory.find(key)).toEqual({ isKnown: true, id: String(rows[0]?.id), owner: null });
    clock.now += MINUTE - 1;
    expect(await directory.find(key)).toMatchObject({ isKnown: true });
  });
});

test("find() caches the newest 10,000 unknown keys, and evicts no known key for them", async () => {
  const { directory, database } = createDirectory();
  const { key: known } = await addKey(client);
  await directory.find(known);
  const unknown = Array.from({ length: 10_500 }, generateKey);
  const expectCached = async (keys: readonly string[]) => {
    const before = database.countAllLookups();
    await findAll(directory, keys);
    expect(database.countAllLookups() - before).toBe(0);
  };
  await findAll(directory, unknown.slice(0, 10_000));
  await expectCached(unknown.slice(0, 10_000));
  await findAll(directory, unknown.slice(10_000));
  await expectCached(unknown.slice(500));

  const lookups = () => unknown.slice(0, 500).map((key) => database.countLookups(key));
  const before = lookups();
  await findAll(directory, unknown.slice(0, 500));
  expect(lookups().filter((count, index) => count > (before[index] ?? 0))).toHaveLength(500);
  await directory.find(known);
  expect(database.countLookups(known)).toBe(1);
});

describe("find() while the database fails", () => {
  const fail = () => client.query("alter table service.api_key rename to api_key_elsewhere");
  const recover = () => client.query("alter table if exists service.api_key_elsewhere rename to api_key");

  test("throws for a key that is not cached, and looks it up again for the next request", async () => {
    const { directory, database } = createDirectory();
    const { key, id } = await addKey(client);
    await fail();
    try {
      for (let attempt = 1; attempt <= 3; attempt++) {
        await expect(directory.find(key)).rejects.toThrow(Problem);
        expect(database.countLookups(key)).toBe(attempt);
      }
      const refusals = await Promise.allSettled(Array.from({ length: 100 }, () => directory.find(key)));
      expect(refusals.every(({ status }) => status === "rejected")).toBe(true);
      expect(database.countLookups(key)).toBe(4);
    } finally {
      await recover();
    }
    expect(await directory.find(key)).toEqual({ isKnown: true, id, owner: null });
  });

  test("accepts a cached key until its minute is over", async () => {
    const { directory, clock } = createDirectory();
    const { key, id } = await addKey(client);
    await directory.find(key);
    await fail();
    try {
      clock.now += MINUTE - 1;
      expect(await directory.find(key)).toEqual({ isKnown: true, id, owner: null });
      clock.now += 1;
      await expect(directory.find(key)).rejects.toThrow(Problem);
    } finally {
      await recover();
    }
    expect(await directory.find(key)).toEqual({ isKnown: true, id, owner: null });
  });

  test("throws when the server is unreachable", async () => {
    const database = new Database("postgres://nobody@127.0.0.1:1/nothing", pino({ enabled: false }));
    onTestFinished(() => database.close());
    const directory = new KeyDirectory(database, new BatchLoad());
    await expect(directory.find(generateKey())).rejects.toThrow("The database cannot be reached");
  });
});
