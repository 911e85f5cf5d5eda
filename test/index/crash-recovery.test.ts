import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { dumpTables, findIndexes } from "../support/index-state.ts";
import { startIndexerProcess } from "../support/indexer-process.ts";
import { seededRandom } from "../support/random.ts";
import { connect, createDatabase, until, untilIndexed } from "../support/setup.ts";
import { Subject } from "../support/subject.ts";

const FINALITY = 30;

test("an indexer killed during backfill and live indexing loses nothing and doubles nothing", {
  timeout: 600_000,
}, async () => {
  const random = seededRandom("crash-recovery.test.ts");
  const subject = await Subject.create(8453, random);
  const chains = [subject.local];
  await subject.mineRandomBlocks(180);

  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  const indexer = await startIndexerProcess({ databaseUrl, chains });

  /** How far the index is, before its views show it. */
  const backfill = async (): Promise<{ checkpoints: number; changes: number; ready: number } | null> => {
    const [schema] = await findIndexes(database);
    if (!schema) return null;
    const { rows: state } = await database
      .query(
        `select (select count(*)::int from ${schema}.delegation_change) as changes,
                (select (value->>'is_ready')::int from ${schema}._ponder_meta) as ready,
                (select count(*)::int from ${schema}._ponder_checkpoint) as checkpoints`,
      )
      .catch(() => ({ rows: [] }));
    return state[0] ?? null;
  };

  const killAndNotice = async () => {
    const kills = () => indexer.output().split("was ended by SIGKILL").length;
    const before = kills();
    indexer.killPonder();
    await until("the indexer notices that Ponder was killed", async () => kills() > before);
  };

  // Twice in the backfill: as it begins, and when a part of it is stored.
  for (const stored of ["checkpoints", "changes"] as const) {
    await until(`the backfill has stored ${stored}`, async () => {
      const state = await backfill();
      return state !== null && state[stored] > 0;
    });
    expect(await backfill()).toMatchObject({ ready: 0 });
    await killAndNotice();
  }
  await untilIndexed(database, subject.local);
  await subject.expectSameAnswers(databaseUrl, "registry");

  // Twice live, at any moment of a block's way into the index, once with a reorg meanwhile.
  for (const depth of [0, 4]) {
    await subject.mineRandomBlocks(6);
    await sleep(random.integer(0, 400));
    await killAndNotice();
    if (depth > 0) await subject.chain.takeBack(depth);
    await subject.mineRandomBlocks(5);
    await untilIndexed(database, subject.local);
  }

  // And once with all that belongs to it, as when a machine goes down.
  await subject.mineRandomBlocks(3);
  indexer.kill();
  await indexer.exited;
  await subject.mineRandomBlocks(3);
  const next = await startIndexerProcess({ databaseUrl, chains });
  await untilIndexed(database, subject.local, { seconds: 60 });
  // Ponder's lock, which a killed one leaves behind, is not waited for.
  expect(next.output()).not.toContain("Schema is locked");
  await subject.expectSameAnswers(databaseUrl, "registry", [1, 10]);

  // What was interrupted five times equals what was not.
  await subject.mineEmptyBlocks(FINALITY + 1);
  await untilIndexed(database, subject.local);
  const freshUrl = await createDatabase();
  const fresh = await connect(freshUrl);
  await startIndexerProcess({ databaseUrl: freshUrl, chains });
  await untilIndexed(fresh, subject.local);
  expect(await dumpTables(freshUrl, "registry")).toEqual(await dumpTables(databaseUrl, "registry"));
});
