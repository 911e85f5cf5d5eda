import pg from "pg";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { BatchLoad } from "../../../api/batch.ts";
import { Database } from "../../../api/database.ts";
import { generateKey, hashKey } from "../../../api/keys/api-key.ts";
import { KeyDirectory } from "../../../api/keys/key-directory.ts";
import { migrate } from "../../../api/migrate.ts";
import { Problem } from "../../../api/problem.ts";
import { addKey, endKey, misspell } from "../../support/keys.ts";
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

/** A database that remembers what was looked up in it. */
class WatchedDatabase extends Database {
  statements = 0;
  /** How often each hash was looked up. */
  readonly #lookups = new Map<string, number>();
  /** What happens between a lookup and its answer. */
  meanwhile: () => Promise<void> = async () => {};

  override async query(query: Parameters<Database["query"]>[0]) {
    this.statements++;
    for (const hash of query.values[0] as string[]) this.#lookups.set(hash, (this.#lookups.get(hash) ?? 0) + 1);
    const rows = await super.query(query);
    await this.meanwhile();
    return rows;
  }

  countLookups(key: string): number {
    return this.#lookups.get(hashKey(key)) ?? 0;
  }

  /** Of all keys together. */
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

/** Finds many keys, some at a time: those of one step are remembered before those of the next. */
const findAll = async (directory: KeyDirectory, keys: readonly string[]) => {
  for (let start = 0; start < keys.length; start += 500) {
    await Promise.all(keys.slice(start, start + 500).map((key) => directory.find(key)));
  }
};

describe("what a key is", () => {
  test("one that somebody has is known, by its own id", async () => {
    const { directory } = createDirectory();
    const [one, other] = [await addKey(client), await addKey(client)];
    expect(await directory.find(one.key)).toEqual({ isKnown: true, id: one.id });
    expect(await directory.find(other.key)).toEqual({ isKnown: true, id: other.id });
  });

  test("a misspelt, an unknown and a revoked one are not, and each says what to do", async () => {
    const { directory } = createDirectory();
    const { key } = await addKey(client);
    const revoked = await addKey(client);
    await endKey(client, revoked.key);

    const findings = await Promise.all([
      directory.find(misspell(key)),
      directory.find(generateKey()),
      directory.find(revoked.key),
    ]);
    expect(findings).toEqual([
      { isKnown: false, reason: expect.stringMatching(/misspelt or cut off.*Copy the key once more/) },
      { isKnown: false, reason: expect.stringMatching(/not known here.*Leave out X-API-KEY/) },
      { isKnown: false, reason: expect.stringMatching(/revoked.*Use another one/) },
    ]);
  });

  test("many that are asked for at once are not mixed up", async () => {
    const { directory } = createDirectory();
    const asked: { key: string; id: string | null }[] = [];
    for (let index = 0; index < 100; index++) asked.push(await addKey(client), { key: generateKey(), id: null });
    const found = await Promise.all(asked.map(({ key }) => directory.find(key)));
    expect(found.map((key) => (key.isKnown ? key.id : null))).toEqual(asked.map(({ id }) => id));
  });
});

describe("how often a key is looked up", () => {
  test("at most once a minute, whether it is known, unknown or revoked", async () => {
    const { directory, database, clock } = createDirectory();
    const [known, revoked, unknown] = [await addKey(client), await addKey(client), { key: generateKey() }];
    await endKey(client, revoked.key);
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

  test("once, when a hundred requests bring a new one at the same moment", async () => {
    const { directory, database } = createDirectory();
    const { key, id } = await addKey(client);
    const found = await Promise.all(Array.from({ length: 100 }, () => directory.find(key)));
    expect(found).toEqual(Array(100).fill({ isKnown: true, id }));
    expect(database.countLookups(key)).toBe(1);
  });

  test("once, when a hundred requests bring it at the moment its minute is over", async () => {
    const { directory, database, clock } = createDirectory();
    const { key } = await addKey(client);
    await directory.find(key);
    clock.now += MINUTE;
    await Promise.all(Array.from({ length: 100 }, () => directory.find(key)));
    expect(database.countLookups(key)).toBe(2);
  });

  test("never, when it is misspelt", async () => {
    const { directory, database } = createDirectory();
    const { key } = await addKey(client);
    for (const text of [misspell(key), ` ${key}`, key.slice(0, -1), `${key}0`, "", "undefined", "k".repeat(4000)]) {
      expect(await directory.find(text)).toMatchObject({ isKnown: false, reason: expect.stringContaining("misspelt") });
    }
    expect(database.statements).toBe(0);
  });

  test("in few statements, when many new ones are brought at once", async () => {
    const { directory, database } = createDirectory();
    await findAll(directory, Array.from({ length: 500 }, generateKey));
    expect(database.countAllLookups()).toBe(500);
    expect(database.statements).toBeLessThan(20);
  });

  test("at most once a minute also when its row was deleted by hand", async () => {
    const { directory, database, clock } = createDirectory();
    const { key } = await addKey(client);
    await directory.find(key);
    await client.query("delete from service.api_key where hash = $1", [hashKey(key)]);
    clock.now += MINUTE;
    for (let use = 0; use < 10; use++) {
      expect(await directory.find(key)).toMatchObject({ isKnown: false, reason: expect.stringContaining("not known") });
    }
    expect(database.countLookups(key)).toBe(2);
  });
});

describe("a change counts within a minute", () => {
  test.each([1, 30_000, MINUTE - 1])("a key that is revoked %i ms after its lookup", async (ms) => {
    const { directory, clock } = createDirectory();
    const { key } = await addKey(client);
    expect(await directory.find(key)).toMatchObject({ isKnown: true });
    clock.now += ms;
    await endKey(client, key);
    clock.now += MINUTE;
    expect(await directory.find(key)).toMatchObject({ isKnown: false, reason: expect.stringContaining("revoked") });
  });

  test("a key that is revoked while it is looked up, and the answer takes long", async () => {
    const { directory, database, clock } = createDirectory();
    const { key } = await addKey(client);
    let revokedAt = 0;
    database.meanwhile = async () => {
      await endKey(client, key);
      revokedAt = clock.now;
      clock.now += 1_400;
    };
    expect(await directory.find(key)).toMatchObject({ isKnown: true });
    database.meanwhile = async () => {};
    clock.now = revokedAt + MINUTE;
    expect(await directory.find(key)).toMatchObject({ isKnown: false, reason: expect.stringContaining("revoked") });
  });

  test("a key that is used all the time: use does not keep it alive", async () => {
    const { directory, clock } = createDirectory();
    const { key } = await addKey(client);
    await directory.find(key);
    await endKey(client, key);
    const revokedAt = clock.now;
    while ((await directory.find(key)).isKnown && clock.now <= revokedAt + MINUTE) clock.now += 100;
    expect(clock.now - revokedAt).toBeLessThanOrEqual(MINUTE);
  });

  test("a key that was tried before it was there", async () => {
    const { directory, clock } = createDirectory();
    const key = generateKey();
    expect(await directory.find(key)).toMatchObject({ isKnown: false, reason: expect.stringContaining("not known") });
    const { rows } = await client.query(
      "insert into service.api_key (name, prefix, hash) values ('late', $1, $2) returning id",
      [key.slice(0, 11), hashKey(key)],
    );
    clock.now += MINUTE;
    expect(await directory.find(key)).toEqual({ isKnown: true, id: String(rows[0]?.id) });
    // And is remembered as such.
    clock.now += MINUTE - 1;
    expect(await directory.find(key)).toMatchObject({ isKnown: true });
  });
});

describe("made-up keys", () => {
  test("are remembered up to 10,000, so that they take no memory without end, and push out no known key", async () => {
    const { directory, database } = createDirectory();
    const { key: known } = await addKey(client);
    await directory.find(known);
    const [oldest, second, ...others] = Array.from({ length: 10_000 }, generateKey);
    if (!oldest || !second) throw new Error("There are no keys.");

    await directory.find(oldest);
    await directory.find(second);
    await findAll(directory, others);
    expect(database.countAllLookups()).toBe(10_001);
    await findAll(directory, [oldest, second, ...others]);
    expect(database.countAllLookups(), "all are remembered").toBe(10_001);

    await directory.find(generateKey());
    await directory.find(second);
    expect(database.countLookups(second), "the second is still remembered").toBe(1);
    await directory.find(oldest);
    expect(database.countLookups(oldest), "the oldest is not").toBe(2);

    // However many come, the newest 10,000 are remembered, and none of the others.
    const many = Array.from({ length: 20_000 }, generateKey);
    await findAll(directory, many);
    const before = database.countAllLookups();
    await findAll(directory, many.slice(10_000));
    expect(database.countAllLookups() - before).toBe(0);
    await findAll(directory, many.slice(0, 10_000));
    expect(database.countAllLookups() - before).toBe(10_000);

    await directory.find(known);
    expect(database.countLookups(known)).toBe(1);
  });
});

describe("while the database fails", () => {
  const fail = () => client.query("alter table service.api_key rename to api_key_elsewhere");
  const recover = () => client.query("alter table if exists service.api_key_elsewhere rename to api_key");

  test("a key that is not remembered is an error and not unknown, and the next request asks again", async () => {
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
    expect(await directory.find(key)).toEqual({ isKnown: true, id });
  });

  test("a key that is remembered goes on working until its minute is over, and no longer", async () => {
    const { directory, clock } = createDirectory();
    const { key, id } = await addKey(client);
    await directory.find(key);
    await fail();
    try {
      clock.now += MINUTE - 1;
      expect(await directory.find(key)).toEqual({ isKnown: true, id });
      clock.now += 1;
      await expect(directory.find(key)).rejects.toThrow(Problem);
    } finally {
      await recover();
    }
    expect(await directory.find(key)).toEqual({ isKnown: true, id });
  });

  test("no server at all: the same", async () => {
    const database = new Database("postgres://nobody@127.0.0.1:1/nothing", pino({ enabled: false }));
    onTestFinished(() => database.close());
    const directory = new KeyDirectory(database, new BatchLoad());
    await expect(directory.find(generateKey())).rejects.toThrow("The database cannot be reached");
  });
});
