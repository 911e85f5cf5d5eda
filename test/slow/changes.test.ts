import { expect, test } from "vitest";
import { startTestApi } from "../support/api.ts";
import { Forks, StreamFollower, WebhookFollower } from "../support/change-followers.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { createRandomChain } from "../support/indexed-chain.ts";
import { launchIndexer } from "../support/indexer.ts";
import { seededRandom } from "../support/random.ts";
import { connectClient, createDatabase, waitUntil, waitUntilIndexed } from "../support/setup.ts";
import { WEBHOOKS_ON } from "../support/webhooks.ts";

const CHAIN = 8453;
const FINALITY = 30;

test("streams and webhooks stay exact while the indexer restarts, blocks are replaced in between, and another index takes over", async () => {
  const random = seededRandom(import.meta.filename);
  const subject = await createRandomChain(CHAIN, 11, 20);
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const options = { databaseUrl, chains: [subject.local] };
  let indexer = await launchIndexer(options);
  await waitUntilIndexed(database, subject.local);
  const forks = new Forks(subject);
  let newest = await forks.record(1);
  const api = await startTestApi({ databaseUrl, env: WEBHOOKS_ON });
  const readers = (["latest", "final"] as const).map(
    (finality) => new StreamFollower(finality, { random, apis: () => [api], forks, chainId: CHAIN }),
  );
  for (const reader of readers) reader.start();
  const [latest] = readers;
  const receiver = new WebhookFollower({ random });
  await receiver.start(databaseUrl, CHAIN);

  /** Replaces the newest blocks. */
  const reorg = async () => {
    await subject.mineRandomBlocks(random.integer(1, 4));
    newest = await forks.record(newest);
    await waitUntilIndexed(database, subject.local);
    const depth = random.integer(2, 8);
    return async () => {
      await subject.chain.revertBlocks(depth);
      await subject.mineRandomBlocks(depth + 1);
      newest = await forks.record(newest - depth);
    };
  };
  const untilRead = () =>
    waitUntil("the newest block is read", () => {
      for (const { failure } of readers) if (failure) throw failure;
      return latest?.newest === newest;
    });

  for (let round = 0; round < 2; round++) {
    const replace = await reorg();
    await indexer.stop();
    await replace();
    indexer = await launchIndexer(options);
    await waitUntilIndexed(database, subject.local);
    await untilRead();
  }
  for (const start of ["1", "0"]) {
    const old = await readServedSchema(database);
    const replace = await reorg();
    const superseded = indexer;
    indexer = await launchIndexer({ ...options, env: { [`START_BLOCK_${CHAIN}`]: start } });
    await replace();
    await superseded.ended;
    expect(await readServedSchema(database)).not.toBe(old);
    await waitUntilIndexed(database, subject.local);
    await untilRead();
  }
  await subject.mineRandomBlocks(2 * FINALITY);
  newest = await forks.record(newest);
  await waitUntilIndexed(database, subject.local);
  await untilRead();
  const isToldOfAll = async () => {
    if (receiver.failure) throw receiver.failure;
    await database.query("update service.webhook set next_attempt_at = null where next_attempt_at > now()");
    return receiver.fold.changes.at(-1)?.transactionHash === latest?.fold.changes.at(-1)?.transactionHash;
  };
  await waitUntil("the receiver has the newest change", isToldOfAll, 120);
  await waitUntil("final blocks are read", () => (readers[1]?.newest ?? 0) > newest - 2 * FINALITY);
  for (const reader of readers) reader.stop();
  await indexer.stop();

  for (const { reached } of readers) expect(reached.flatMap((each) => forks.compare(each))).toEqual([]);
  expect(latest?.fold.undos).toBeGreaterThan(0);
  expect(readers[1]?.fold.undos).toBe(0);
  expect(forks.compare({ number: newest, answers: forks.readAnswers(receiver.fold) })).toEqual([]);
  console.log(
    readers.map(({ connections, reached, fold }) => ({ connections, progress: reached.length, undos: fold.undos })),
  );
});
