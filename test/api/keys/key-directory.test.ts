import type pg from "pg";
import { pino } from "pino";
import { describe, expect, onTestFinished } from "vitest";
import { BatchLoad } from "../../../api/database/batch-queue.ts";
import { Database } from "../../../api/database/database.ts";
import { POOLS } from "../../../api/database/pools.ts";
import type { Statement } from "../../../api/database/statement.ts";
import { generateKey, hashKey } from "../../../api/keys/api-key.ts";
import { KeyDirectory } from "../../../api/keys/key-directory.ts";
import { Problem } from "../../../api/problem.ts";
import { addKey, createMigratedDatabase, misspellKey, revokeAddedKey } from "../../support/keys.ts";
import { test as base } from "../../support/test.ts";

const MINUTE = 60_000;

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

/** A directory with its clock and its database, and a connection that changes keys. */
const test = base
  .extend("databaseUrl", createMigratedDatabase)
  .extend("parts", async ({ databaseUrl, database: client }) => {
    const database = new WatchedDatabase(databaseUrl, pino({ enabled: false }));
    onTestFinished(() => database.close());
    // A lookup that waits for a connection on a busy machine may fail, and is repeated.
    const connect = () => database.run(() => database.db.execute("select 1"));
    await Promise.all(Array.from({ length: POOLS.checks.max }, connect));
    const clock = { now: 1_000_000 };
    const directory = new KeyDirectory(database, new BatchLoad(), () => clock.now);
    return { database, clock, directory, client };
  });

/** Finds many keys in groups, so that their order is known. */
const findAll = async (directory: KeyDirectory, keys: readonly string[]) => {
  for (let start = 0; start < keys.length; start += 500) {
    await Promise.all(keys.slice(start, start + 500).map((key) => directory.find(key)));
  }
};

describe("find()", () => {
  test("returns the id of a known key", async ({ parts: { directory, client } }) => {
    const [one, other] = [await addKey(client), await addKey(client)];
    expect(await directory.find(one.key)).toEqual({ isKnown: true, id: one.id, owner: null });
    expect(await directory.find(other.key)).toEqual({ isKnown: true, id: other.id, owner: null });
  });

  test("returns the right id for each key of a batch", async ({ parts: { directory, client } }) => {
    const asked: { key: string; id: string | null }[] = [];
    for (let index = 0; index < 100; index++) asked.push(await addKey(client), { key: generateKey(), id: null });
    const found = await Promise.all(asked.map(({ key }) => directory.find(key)));
    expect(found.map((key) => (key.isKnown ? key.id : null))).toEqual(asked.map(({ id }) => id));
  });
});

describe("find() looks a key up", () => {
  test("at most once a minute if it is known, unknown or revoked", async ({
    parts: { directory, database, clock, client },
  }) => {
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

  test("once for a hundred concurrent requests, at first and when its minute is over", async ({
    parts: { directory, database, clock, client },
  }) => {
    const { key, id } = await addKey(client);
    for (const lookups of [1, 2]) {
      const found = await Promise.all(Array.from({ length: 100 }, () => directory.find(key)));
      expect(found).toEqual(Array(100).fill({ isKnown: true, id, owner: null }));
      expect(database.countLookups(key)).toBe(lookups);
      clock.now += MINUTE;
    }
  });

  test("never if it is misspelt", async ({ parts: { directory, database, client } }) => {
    const { key } = await addKey(client);
    for (const text of [misspellKey(key), ` ${key}`, key.slice(0, -1), `${key}0`, "", "undefined", "k".repeat(4000)]) {
      expect(await directory.find(text)).toMatchObject({ isKnown: false, reason: expect.stringContaining("misspelt") });
    }
    expect(database.statements).toBe(0);
  });

  test("together with concurrent others, in few statements", async ({ parts: { directory, database } }) => {
    await findAll(directory, Array.from({ length: 500 }, generateKey));
    expect(database.countAllLookups()).toBe(500);
    expect(database.statements).toBeLessThan(20);
  });

  test("at most once a minute after its row was deleted", async ({ parts: { directory, database, clock, client } }) => {
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
  test("a key that is revoked during a slow lookup", async ({ parts: { directory, database, clock, client } }) => {
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

  test("a key that was asked for before it was made", async ({ parts: { directory, clock, client } }) => {
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

test("find() caches the newest 10,000 unknown keys, and evicts no known key for them", async ({
  parts: { directory, database, client },
}) => {
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
  const fail = (client: pg.Client) => client.query("alter table service.api_key rename to api_key_elsewhere");
  const recover = (client: pg.Client) => client.query("alter table service.api_key_elsewhere rename to api_key");

  test("throws for a key that is not cached, and looks it up again for the next request", async ({
    parts: { directory, database, client },
  }) => {
    const { key, id } = await addKey(client);
    await fail(client);
    try {
      for (let attempt = 1; attempt <= 3; attempt++) {
        await expect(directory.find(key)).rejects.toThrow(Problem);
        expect(database.countLookups(key)).toBe(attempt);
      }
      const refusals = await Promise.allSettled(Array.from({ length: 100 }, () => directory.find(key)));
      expect(refusals.every(({ status }) => status === "rejected")).toBe(true);
      expect(database.countLookups(key)).toBe(4);
    } finally {
      await recover(client);
    }
    expect(await directory.find(key)).toEqual({ isKnown: true, id, owner: null });
  });

  test("accepts a cached key until its minute is over", async ({ parts: { directory, clock, client } }) => {
    const { key, id } = await addKey(client);
    await directory.find(key);
    await fail(client);
    try {
      clock.now += MINUTE - 1;
      expect(await directory.find(key)).toEqual({ isKnown: true, id, owner: null });
      clock.now += 1;
      await expect(directory.find(key)).rejects.toThrow(Problem);
    } finally {
      await recover(client);
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
