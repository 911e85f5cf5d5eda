import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import { Database } from "../../../api/database/database.ts";
import { migrate } from "../../../api/database/migrate.ts";
import { KeyUsage } from "../../../api/keys/key-usage.ts";
import { Problem } from "../../../api/problem.ts";
import { addKey } from "../../support/keys.ts";
import { connectClient, createDatabase } from "../../support/setup.ts";

/** A real database that can lose the results of executed statements. */
class LossyDatabase extends Database {
  losesAnswers = false;

  override async run<Result>(execute: () => Promise<Result>) {
    const rows = await super.run(execute);
    if (this.losesAnswers) throw new Problem("database-unavailable", "The answer was lost.");
    return rows;
  }
}

const createUsage = async () => {
  const url = await createDatabase();
  await migrate(url);
  const database = new LossyDatabase(url, pino({ enabled: false }));
  onTestFinished(() => database.close());
  const client = await connectClient(url);
  const { id } = await addKey(client);
  const readCount = async () => {
    const { rows } = await client.query("select sum(requests) as sum from service.api_key_usage");
    return Number(rows[0].sum);
  };
  return { database, client, id, readCount };
};

const count = (usage: KeyUsage, id: string, times: number) => {
  for (let time = 0; time < times; time++) usage.count(id);
};

test("write() counts a batch once when it retries it after a lost result", async () => {
  const { database, id, readCount } = await createUsage();
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

test("write() stores requests once after the table was locked", async () => {
  const { database, client, id, readCount } = await createUsage();
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

test("write() loses nothing when several processes write concurrently", async () => {
  const { database, id, readCount } = await createUsage();
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

test("write() stores the usage of other keys when one was deleted", async () => {
  const { database, client, id, readCount } = await createUsage();
  const deleted = await addKey(client);
  const usage = new KeyUsage(database);
  count(usage, id, 2);
  count(usage, deleted.id, 3);
  await client.query("delete from service.api_key where id = $1", [deleted.id]);
  await usage.write();
  expect(await readCount()).toBe(2);
});
