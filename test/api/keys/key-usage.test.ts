import { pino } from "pino";
import { expect, onTestFinished } from "vitest";
import { Database } from "../../../api/database/database.ts";
import { KeyUsage } from "../../../api/keys/key-usage.ts";
import { Problem } from "../../../api/problem.ts";
import { addKey, createMigratedDatabase } from "../../support/keys.ts";
import { test as base } from "../../support/test.ts";

/** A real database that can lose the results of executed statements. */
class LossyDatabase extends Database {
  losesAnswers = false;

  override async run<Result>(execute: () => Promise<Result>) {
    const rows = await super.run(execute);
    if (this.losesAnswers) throw new Problem("database-unavailable", "The answer was lost.");
    return rows;
  }
}

const test = base
  .extend("databaseUrl", createMigratedDatabase)
  .extend("parts", async ({ databaseUrl, database: client }) => {
    const database = new LossyDatabase(databaseUrl, pino({ enabled: false }));
    onTestFinished(() => database.close());
    const { id } = await addKey(client);
    const readCount = async () => {
      const { rows } = await client.query("select requests from service.api_key_usage where api_key_id = $1", [id]);
      return Number(rows[0].requests);
    };
    return { database, client, id, readCount };
  });

const count = (usage: KeyUsage, id: string, times: number) => {
  for (let time = 0; time < times; time++) usage.count(id);
};

test("write() counts a batch once when it retries it after a lost result", async ({
  parts: { database, id, readCount },
}) => {
  const usage = new KeyUsage(database);
  count(usage, id, 20);
  database.losesAnswers = true;
  await usage.write();
  count(usage, id, 1);
  await usage.write();
  database.losesAnswers = false;
  await usage.write();
  expect(await readCount()).toBe(21);
  await usage.write();
  expect(await readCount()).toBe(21);
});

test("write() stores requests once after the table was locked", async ({
  parts: { database, client, id, readCount },
}) => {
  const usage = new KeyUsage(database);
  await client.query("begin; lock table service.api_key_usage in access exclusive mode");
  for (let round = 0; round < 2; round++) {
    count(usage, id, 5);
    await usage.write();
    expect(usage.isWritten).toBe(false);
  }
  await client.query("rollback");
  count(usage, id, 1);
  for (let round = 0; round < 3; round++) await usage.write();
  expect(usage.isWritten).toBe(true);
  expect(await readCount()).toBe(11);
});

test("write() loses nothing when several processes write concurrently", async ({
  parts: { database, id, readCount },
}) => {
  const usages = Array.from({ length: 5 }, () => new KeyUsage(database));
  const writes: Promise<void>[] = [];
  for (let round = 0; round < 10; round++) {
    for (const usage of usages) {
      count(usage, id, 3);
      writes.push(usage.write(), usage.write());
    }
  }
  await Promise.all(writes);
  expect(await readCount()).toBe(5 * 10 * 3);
});

test("write() stores the usage of other keys when one was deleted", async ({
  parts: { database, client, id, readCount },
}) => {
  const deleted = await addKey(client);
  const usage = new KeyUsage(database);
  count(usage, id, 2);
  count(usage, deleted.id, 3);
  await client.query("delete from service.api_key where id = $1", [deleted.id]);
  await usage.write();
  expect(await readCount()).toBe(2);
});
