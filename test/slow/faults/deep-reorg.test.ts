import { expect, test } from "vitest";
import { ComparedChain } from "../../support/compared-chain.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { Random } from "../../support/random.ts";
import { connectClient, createDatabase, startIndexer, waitUntil, waitUntilIndexed } from "../../support/setup.ts";

/** Blocks after which Ponder treats a block as final. */
const FINALITY = 30;

/** Indexes a chain up to blocks that are final, and returns a function that replaces them and later ones. */
const indexFinalBlocks = async (seed: number) => {
  const random = new Random(seed);
  const [subject, other] = [await ComparedChain.create(8453, random), await ComparedChain.create(10, random)];
  subject.questions = subject.questions.filter((_, index) => index % 5 === 0);
  await subject.mineRandomBlocks(6);
  await other.mineRandomBlocks(4);
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const start = () => startIndexer({ databaseUrl, chains: [subject.local, other.local] });
  const { client } = subject.local;

  const first = await start();
  await waitUntilIndexed(database, subject.local);
  const snapshot = await client.snapshot();
  await subject.mineRandomBlocks(2 * FINALITY);
  await waitUntilIndexed(database, subject.local);
  await first.stop();
  const indexer = await start();
  await waitUntil("the indexer is ready again", () => indexer.output().includes("Started live indexing chain=Base"));
  await waitUntilIndexed(database, subject.local);

  const replaceBlocks = async () => {
    await client.revert({ id: snapshot });
    await subject.mineRandomBlocks(2 * FINALITY + 8);
  };
  const expectSame = async () => {
    await waitUntilIndexed(database, subject.local, { seconds: 120 });
    await waitUntilIndexed(database, other.local);
    await subject.expectSameAnswers(databaseUrl, "registry", [1, FINALITY, 2 * FINALITY]);
    await other.expectSameAnswers(databaseUrl, "registry");
  };
  return { client, database, start, indexer, replaceBlocks, expectSame };
};

const MESSAGE = "Base: a reorg was deeper than final. Indexing again from block";

test("a reorg deeper than final that happens while no indexer runs is undone at the next start", async () => {
  const { database, start, indexer, replaceBlocks, expectSame } = await indexFinalBlocks(71);
  const schema = await readServedSchema(database);
  const readChanges = async () =>
    (await database.query(`select block_number, log_index, transaction_hash from ${schema}.delegation_change`)).rows;
  const before = await readChanges();
  await indexer.stop();
  await replaceBlocks();

  const second = await start();
  await expectSame();
  expect(second.output()).toContain(MESSAGE);
  expect(await readServedSchema(database)).toBe(schema);
  expect(await readChanges()).not.toEqual(before);

  // Ponder's cache has the new blocks too: an index that is built from it is the same.
  await second.stop();
  await database.query(`drop schema ${schema} cascade`);
  await database.query("truncate indexer.index cascade; truncate indexer.shard");
  await start();
  await expectSame();
});

test("a reorg deeper than final is undone while the indexer runs, and no replaced block is served", async () => {
  const { client, database, indexer, replaceBlocks, expectSame } = await indexFinalBlocks(73);
  await replaceBlocks();
  await waitUntil("the reorg is found", async () => indexer.output().includes(MESSAGE), 120);
  for (let round = 0; round < 50; round++) {
    const { rows } = await database.query("select number, hash from registry.indexed_block where chain_id = 8453");
    for (const { number, hash } of rows) {
      expect((await client.getBlock({ blockNumber: BigInt(number) })).hash).toBe(hash);
    }
  }
  await expectSame();
});
