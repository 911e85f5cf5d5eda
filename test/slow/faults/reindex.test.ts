import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startApi } from "../../support/api.ts";
import { findIndexes } from "../../support/index-state.ts";
import { startIndexerProcess } from "../../support/indexer-process.ts";
import { Random } from "../../support/random.ts";
import { connect, createDatabase, until, untilIndexed } from "../../support/setup.ts";
import { Subject } from "../../support/subject.ts";

const servedSchema = async (database: Awaited<ReturnType<typeof connect>>) => {
  const { rows } = await database.query("select schema from indexer.shard where name = 'registry'");
  return rows[0]?.schema;
};

test("a restarted indexer resumes; a changed one builds beside it, takes over without a gap, and drops it", async () => {
  const subject = await Subject.create(8453, new Random(3));
  const chains = [subject.local];
  await subject.mineRandomBlocks(60);
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);

  // The same settings: the same index.
  const first = await startIndexerProcess({ databaseUrl, chains });
  await untilIndexed(database, subject.local);
  const schema = await servedSchema(database);
  await first.stop();
  await subject.mineRandomBlocks(3);
  const old = await startIndexerProcess({ databaseUrl, chains });
  await untilIndexed(database, subject.local);
  expect(await servedSchema(database)).toBe(schema);
  expect(old.output()).toContain("Detected crash recovery");
  expect(old.output()).not.toContain("Created database tables");

  // Whoever reads meanwhile is never refused and never sent back in time.
  const reader = await connect(databaseUrl);
  const seen: bigint[] = [];
  let isReading = true;
  const reading = (async () => {
    while (isReading) {
      const { rows } = await reader.query(
        `with log as (select count(*) as changes from registry.delegation_change where chain_id = 8453)
         select number, changes from log, registry.indexed_block where chain_id = 8453`,
      );
      seen.push(BigInt(rows[0].number));
      await sleep(2);
    }
  })();

  // Nor are data teams.
  const analyst = await connect(databaseUrl);
  const known: number[] = [];
  const analysing = (async () => {
    while (isReading) {
      const { rows } = await analyst.query(
        `select analytics.known_block(8453)::int as block, count(*) as active from analytics.delegations where chain_id = 8453`,
      );
      known.push(rows[0].block);
      await sleep(5);
    }
  })();

  // Nor is whoever asks the API.
  const api = await startApi({ databaseUrl });
  const wallet = subject.world.wallets[0].address;
  const paths = [
    `/registry/v2/${wallet}?chainId=8453`,
    `/registry/v1/check/all?delegate=${wallet}&vault=${wallet}&chainId=8453`,
  ];
  const answered: { status: number; block: number }[] = [];
  const asking = (async () => {
    while (isReading) {
      for (const path of paths) {
        const response = await api.get(path);
        await response.text();
        answered.push({ status: response.status, block: Number(response.headers.get("X-Indexed-Block")) });
        await sleep(20);
      }
    }
  })();

  // The chain goes on meanwhile, and both indexes with it.
  const mining = (async () => {
    while (isReading) {
      await subject.mineRandomBlock();
      await sleep(300);
    }
  })();

  // Another start block: another index, by an indexer beside the one that runs.
  const changed = await startIndexerProcess({ databaseUrl, chains, env: { START_BLOCK_8453: "1" } });
  await until("the new index is under way", async () => (await findIndexes(database)).length === 2);
  await until("the new index is shown", async () => (await servedSchema(database)) !== schema);
  expect(await old.exited).toEqual({ code: 0, signal: null });
  expect(old.output()).toContain("is superseded");

  await until("the old index is dropped", async () => (await findIndexes(database)).length === 1);
  await sleep(1000);
  isReading = false;
  await Promise.all([reading, analysing, asking, mining]);
  await untilIndexed(database, subject.local);

  expect(seen.length).toBeGreaterThan(100);
  expect(seen).toEqual(seen.toSorted((a, b) => Number(a - b)));
  expect(known.length).toBeGreaterThan(100);
  expect(known).toEqual(known.toSorted((a, b) => a - b));
  expect(answered.length).toBeGreaterThan(100);
  expect(answered.filter(({ status }) => status !== 200)).toEqual([]);
  expect(answered).toEqual(answered.toSorted((a, b) => a.block - b.block));
  await subject.expectSameAnswers(databaseUrl, "registry");
  await subject.expectSameAnswersOverHttp(api.url);
  await subject.expectSameAnswersInSql(databaseUrl);
  expect(changed.output()).toContain(`Dropped ${schema}`);
});

test("a second indexer of the same index is refused", async () => {
  const subject = await Subject.create(8453, new Random(3));
  const chains = [subject.local];
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  await startIndexerProcess({ databaseUrl, chains });
  await untilIndexed(database, subject.local);

  const second = await startIndexerProcess({ databaseUrl, chains });
  expect(await second.exited).toEqual({ code: 1, signal: null });
  expect(second.output()).toContain("Another indexer is running the same index");
});
