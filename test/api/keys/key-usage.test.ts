import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import { Database } from "../../../api/database.ts";
import { KeyUsage } from "../../../api/keys/key-usage.ts";
import { migrate } from "../../../api/migrate.ts";
import { Problem } from "../../../api/problem.ts";
import { addKey } from "../../support/keys.ts";
import { connect, createDatabase } from "../../support/setup.ts";

/** A real database whose answers can be lost on their way: what was asked is done all the same. */
class LossyDatabase extends Database {
  losesAnswers = false;

  override async query(query: Parameters<Database["query"]>[0]) {
    const rows = await super.query(query);
    if (this.losesAnswers) throw new Problem("database-unavailable", "The answer was lost.");
    return rows;
  }
}

const createUsage = async () => {
  const url = await createDatabase();
  await migrate(url);
  const database = new LossyDatabase(url, pino({ enabled: false }));
  onTestFinished(() => database.close());
  const client = await connect(url);
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

test("what is sent again, because no answer came, counts once; and what came in between counts too", async () => {
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

test("several processes that write at the same time, over and over, lose nothing", async () => {
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

test("a key that was deleted by hand does not keep others from being counted", async () => {
  const { database, client, id, readCount } = await createUsage();
  const deleted = await addKey(client);
  const usage = new KeyUsage(database);
  count(usage, id, 2);
  count(usage, deleted.id, 3);
  await client.query("delete from service.api_key where id = $1", [deleted.id]);
  await usage.write();
  expect(await readCount()).toBe(2);
});
