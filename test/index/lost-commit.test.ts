import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { startIndexer } from "../support/indexer.ts";
import { type LostAt, startLossyDatabase } from "../support/lossy-database.ts";
import { seededRandom } from "../support/random.ts";
import { createDatabase, untilIndexed } from "../support/setup.ts";
import { Subject } from "../support/subject.ts";

// Ponder tries a transaction again when its commit fails, with what the failed attempt left in its memory: to the
// handlers everything looks stored already.

/** What is final is history, which Ponder stores in ranges of blocks. */
const BLOCKS_UNTIL_FINAL = 65;

test.each<LostAt>(["commit", "reply"])(
  "an index agrees with the registries after a lost %s, in history and live",
  async (lostAt) => {
    const random = seededRandom(`index/lost-commit.test.ts ${lostAt}`);
    const subject = await Subject.create(1, random);
    subject.questions = subject.questions.filter(() => random.chance(0.3));
    await subject.mineRandomBlocks(6);
    for (let block = 0; block < BLOCKS_UNTIL_FINAL; block++) await subject.local.client.mine({ blocks: 1 });
    const databaseUrl = await createDatabase();
    const lossy = await startLossyDatabase(databaseUrl);
    const database = new pg.Client(databaseUrl);
    await database.connect();
    onTestFinished(() => database.end());

    lossy.breakNextCommit(lostAt);
    await startIndexer({ databaseUrl: lossy.url, chains: [subject.local] });
    await untilIndexed(database, subject.local, { seconds: 120 });
    expect(lossy.hasBroken()).toBe(true);
    await subject.expectSameAnswers(databaseUrl, "registry", [1, 3]);

    lossy.breakNextCommit(lostAt);
    await subject.mineRandomBlocks(4);
    await untilIndexed(database, subject.local, { seconds: 120 });
    expect(lossy.hasBroken()).toBe(true);
    await subject.expectSameAnswers(databaseUrl, "registry", [1, 3]);
  },
);
