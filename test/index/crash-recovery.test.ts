import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startIndexerProcess } from "../support/indexer.ts";
import { seededRandom } from "../support/random.ts";
import { ComparedChain } from "../support/random-chain.ts";
import { connectClient, createDatabase, waitUntilIndexed } from "../support/setup.ts";

test("an index agrees with the registries after Ponder is killed during a reorg, and after the indexer is killed", async () => {
  const random = seededRandom(import.meta.filename);
  const subject = await ComparedChain.create(8453, random);
  subject.questions = subject.questions.filter(() => random.chance(0.3));
  await subject.mineRandomBlocks(12);
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const start = () => startIndexerProcess({ databaseUrl, chains: [subject.local] });
  const indexer = await start();
  await waitUntilIndexed(database, subject.local);

  await subject.mineRandomBlocks(6);
  // Hits any step of indexing a block.
  await sleep(random.integer(0, 400));
  indexer.killPonder();
  await subject.chain.revertBlocks(4);
  await subject.mineRandomBlocks(5);
  await waitUntilIndexed(database, subject.local);

  await subject.mineRandomBlocks(3);
  indexer.kill();
  await indexer.exited;
  await subject.mineRandomBlocks(3);
  const next = await start();
  await waitUntilIndexed(database, subject.local);
  // The indexer does not wait for the lock that the killed Ponder left behind.
  expect(next.output()).not.toContain("Schema is locked");
  await subject.expectSameAnswers(databaseUrl, "registry", [1, 10]);
});
