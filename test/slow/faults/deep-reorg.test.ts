import { expect, test } from "vitest";
import { readServedSchema } from "../../support/index-copy.ts";
import { createRandomChain } from "../../support/indexed-chain.ts";
import { connectClient, createDatabase, startIndexer, waitUntil, waitUntilIndexed } from "../../support/setup.ts";

/** Blocks after which Ponder treats a block as final. */
const FINALITY = 30;
const MESSAGE = "Base: a reorg was deeper than final. Indexing again from block";

test("a reorg deeper than final is undone, while the indexer runs and at its next start", {
  timeout: 600_000,
}, async () => {
  const [subject, other] = [await createRandomChain(8453, 71, 6), await createRandomChain(10, 72, 4)];
  const { client } = subject.local;
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const start = () => startIndexer({ databaseUrl, chains: [subject.local, other.local] });
  const expectSame = async () => {
    await waitUntilIndexed(database, subject.local, { seconds: 120 });
    await waitUntilIndexed(database, other.local);
    await subject.expectSameAnswers(databaseUrl, "registry", [1, FINALITY, 2 * FINALITY]);
    await other.expectSameAnswers(databaseUrl, "registry");
  };
  let indexer = await start();
  /** Indexes blocks of which the first ones are final, and returns a function that replaces all of them. */
  const indexFinalBlocks = async () => {
    await waitUntilIndexed(database, subject.local, { seconds: 120 });
    const snapshot = await client.snapshot();
    await subject.mineRandomBlocks(2 * FINALITY);
    await waitUntilIndexed(database, subject.local);
    await indexer.stop();
    indexer = await start();
    await waitUntil("the indexer is ready again", () => indexer.output().includes("Started live indexing chain=Base"));
    await waitUntilIndexed(database, subject.local);
    return async () => {
      await client.revert({ id: snapshot });
      await subject.mineRandomBlocks(2 * FINALITY + 8);
    };
  };

  const replaceBlocks = await indexFinalBlocks();
  await replaceBlocks();
  await waitUntil("the reorg is found", () => indexer.output().includes(MESSAGE), 120);
  for (let round = 0; round < 50; round++) {
    const { rows } = await database.query("select number, hash from registry.indexed_block where chain_id = 8453");
    for (const { number, hash } of rows) {
      expect((await client.getBlock({ blockNumber: BigInt(number) })).hash, "a replaced block is served").toBe(hash);
    }
  }
  await expectSame();

  const replaceAgain = await indexFinalBlocks();
  const schema = await readServedSchema(database);
  const readChanges = async () =>
    (await database.query(`select block_number, log_index, transaction_hash from ${schema}.delegation_change`)).rows;
  const before = await readChanges();
  await indexer.stop();
  await replaceAgain();
  indexer = await start();
  await expectSame();
  expect(indexer.output()).toContain(MESSAGE);
  expect(await readServedSchema(database)).toBe(schema);
  expect(await readChanges()).not.toEqual(before);

  // Ponder's cache has the new blocks too: an index that is built from it is the same.
  await indexer.stop();
  await database.query(`drop schema ${schema} cascade`);
  await database.query("truncate indexer.index cascade; truncate indexer.shard");
  await start();
  await expectSame();
});
