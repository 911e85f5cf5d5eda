import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { ComparedChain } from "../support/compared-chain.ts";
import { startIndexer } from "../support/indexer.ts";
import { type LostAt, startLossyDatabase } from "../support/lossy-database.ts";
import { seededRandom } from "../support/random.ts";
import { createDatabase, waitUntilIndexed } from "../support/setup.ts";

// Ponder retries a transaction when its commit fails, but keeps the failed attempt in its cache: to the handlers
// everything looks stored already.

/** Ponder backfills final blocks in ranges. */
const BLOCKS_UNTIL_FINAL = 65;

test.each<LostAt>(["commit", "reply"])(
  "an index agrees with the registries after a lost %s during backfill and live",
  async (lostAt) => {
    const random = seededRandom(import.meta.filename);
    const subject = await ComparedChain.create(1, random);
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
    await waitUntilIndexed(database, subject.local, { seconds: 120 });
    expect(lossy.hasBroken()).toBe(true);
    await subject.expectSameAnswers(databaseUrl, "registry", [1, 3]);

    lossy.breakNextCommit(lostAt);
    await subject.mineRandomBlocks(4);
    await waitUntilIndexed(database, subject.local, { seconds: 120 });
    expect(lossy.hasBroken()).toBe(true);
    await subject.expectSameAnswers(databaseUrl, "registry", [1, 3]);
  },
);
