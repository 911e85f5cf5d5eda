import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { expectRightSums } from "../support/activity.ts";
import { startApi } from "../support/api.ts";
import { dumpTables } from "../support/index-state.ts";
import { addKey } from "../support/keys.ts";
import { seededRandom } from "../support/random.ts";
import { connect, createDatabase, startIndexer, until, untilIndexed } from "../support/setup.ts";
import { Subject } from "../support/subject.ts";

// Two networks with both registries. Ponder takes their blocks for final after 30 more.
const CHAIN_IDS = [10, 8453] as const;
const FINALITY = 30;
const DIGEST_BLOCK = 1000n;

const ROUNDS = 40;
const REORGS = 26;
const SECONDS_TO_UNDO = 10;

test("index, API, explorer and SQL give the registries' own answers, and digests of them, after random operations and reorgs", {
  timeout: 600_000,
}, async () => {
  const random = seededRandom("index-differential.test.ts");
  const subjects = [await Subject.create(CHAIN_IDS[0], random), await Subject.create(CHAIN_IDS[1], random)] as const;
  const chains = subjects.map(({ local }) => local);

  // Some history before the indexer starts, so that a part of it is backfilled.
  // The thousandth block is final then: of that one the API tells the digest.
  for (const subject of subjects) {
    await subject.mineRandomBlocks(10);
    await subject.mineUpTo(DIGEST_BLOCK);
    await subject.mineRandomBlocks(FINALITY + 10);
  }

  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  await startIndexer({ databaseUrl, chains });
  const api = await startApi({ databaseUrl });
  const { key } = await addKey(database);

  const compare = async (blocksBack: readonly number[]) => {
    for (const subject of subjects) {
      await untilIndexed(database, subject.local);
      await subject.expectSameAnswers(databaseUrl, "registry", blocksBack);
      await subject.expectSameAnswersOverHttp(api.url, key);
      await subject.expectSameInExplorer(api.url, blocksBack);
      await subject.expectSameAnswersInSql(databaseUrl, blocksBack);
      await subject.expectSameDigests(database, blocksBack);
    }
  };
  await compare([]);

  let blocksUndone = 0;
  let slowestMs = 0;
  const undone: Record<string, number> = {};
  for (let round = 0; round < ROUNDS; round++) {
    const subject = random.pick(subjects);
    await subject.mineRandomBlocks(random.integer(1, 3));

    if (round < REORGS) {
      // The index has the blocks that are taken back, or is anywhere on its way to them.
      if (round % 4 === 3) await sleep(random.integer(0, 400));
      else await untilIndexed(database, subject.local);

      const depth = random.integer(1, 10);
      for (const event of await subject.newestEvents(depth)) undone[event] = (undone[event] ?? 0) + 1;
      await subject.chain.takeBack(depth);
      await subject.mineRandomBlocks(depth + random.integer(0, 2));
      const replacedAt = Date.now();
      await untilIndexed(database, subject.local, { seconds: SECONDS_TO_UNDO });
      slowestMs = Math.max(slowestMs, Date.now() - replacedAt);
      blocksUndone += depth;
    }
    if (round === ROUNDS / 2) await compare([1, 5]);
  }
  await compare([1, 3, 12, 25]);
  await expectRightSums(database);
  for (const subject of subjects) {
    await until("the API tells the digests", async () => (await subject.compareToldDigests(api.url)) !== null, 60);
    expect(await subject.compareToldDigests(api.url)).toEqual([]);
  }

  // The same chains indexed from scratch, all of it as history: the same rows, the log included.
  for (const subject of subjects) {
    await subject.mineEmptyBlocks(FINALITY + 1);
    await untilIndexed(database, subject.local);
  }
  const freshUrl = await createDatabase();
  const fresh = await connect(freshUrl);
  await startIndexer({ databaseUrl: freshUrl, chains });
  for (const chain of chains) await untilIndexed(fresh, chain);
  expect(await dumpTables(freshUrl, "registry")).toEqual(await dumpTables(databaseUrl, "registry"));

  const [operations, answers, overHttp, inExplorer, inSql, digests] = (
    ["operations", "answers", "answersOverHttp", "answersOfExplorer", "answersInSql", "digests"] as const
  ).map((tally) => subjects.reduce((sum, subject) => sum + subject[tally], 0));
  console.log(
    `${operations} operations, ${REORGS} reorgs of ${blocksUndone} blocks, ${answers} answers compared, ${overHttp} over HTTP, ${inExplorer} in the explorer, ${inSql} in SQL, ${digests} digests.`,
  );
  console.log(`The slowest reorg was undone after ${slowestMs} ms. Undone in all:`, undone);
  expect(Object.keys(undone)).toEqual(
    expect.arrayContaining(["DelegateForAll", "DelegateForToken", "RevokeDelegate", "DelegateAll", "DelegateERC20"]),
  );
  expect(operations).toBeGreaterThanOrEqual(500);
  expect(answers).toBeGreaterThanOrEqual(5000);
  expect(overHttp).toBeGreaterThanOrEqual(5000);
  expect(inExplorer).toBeGreaterThanOrEqual(4000);
  expect(inSql).toBeGreaterThanOrEqual(5000);
  expect(digests).toBeGreaterThanOrEqual(50);
});
