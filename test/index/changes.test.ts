import { expect } from "vitest";
import { launchApi, startTestApi } from "../support/api.ts";
import { ClientFollower, Forks, StreamFollower, WebhookFollower } from "../support/change-followers.ts";
import { Fold, readChangesPage } from "../support/changes.ts";
import { createRandomChain } from "../support/indexed-chain.ts";
import { seededRandom } from "../support/random.ts";
import { connectClient, createDatabase, startIndexer, waitUntil, waitUntilIndexed } from "../support/setup.ts";
import { test } from "../support/test.ts";
import { WEBHOOKS_ON } from "../support/webhooks.ts";

const CHAIN = 8453;
/** Ponder treats blocks as final after 30 more. */
const FINALITY = 30;
const ROUNDS = 10;

test("streams, pages and webhooks give exactly the registries' delegations, through reorgs, lost connections and restarts", {
  timeout: 300_000,
}, async () => {
  const random = seededRandom(import.meta.filename);
  const subject = await createRandomChain(CHAIN, 7, 20);
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  await startIndexer({ databaseUrl, chains: [subject.local] });
  await waitUntilIndexed(database, subject.local);
  const forks = new Forks(subject);
  let newest = await forks.record(1);

  const kept = await startTestApi({ databaseUrl });
  // The only one that sends webhooks: each restart is in the middle of them.
  const restart = () => launchApi({ databaseUrl, env: WEBHOOKS_ON });
  let restarted = await restart();
  const apis = () => [kept, restarted] as const;
  const options = { random, apis, forks, chainId: CHAIN };
  const latest = new StreamFollower("latest", options);
  const final = new StreamFollower("final", options);
  const client = new ClientFollower(options);
  const followers = [latest, final, client];
  for (const follower of followers) follower.start();
  const receiver = new WebhookFollower(options);
  await receiver.start(databaseUrl, CHAIN);
  const endPause = () =>
    database.query("update service.webhook set next_attempt_at = null where next_attempt_at > now()");

  /** Pages of the same: asked for once a round. */
  const polled = new Fold();
  let cursor = "start";
  const poll = async () => {
    for (;;) {
      const page = await readChangesPage(kept, `?chainId=${CHAIN}&finality=latest&limit=7&cursor=${cursor}`);
      for (const undo of page.undo) polled.undo(undo);
      for (const change of page.changes) polled.change(change);
      cursor = page.next;
      const reached = page.blocks[CHAIN]?.number;
      if (reached === undefined) continue;
      polled.progress(reached);
      expect(forks.compare({ number: reached, answers: forks.readAnswers(polled) })).toEqual([]);
      return;
    }
  };

  const isToldOfAll = async () => {
    if (receiver.failure) throw receiver.failure;
    await endPause();
    return receiver.fold.changes.at(-1)?.transactionHash === latest.fold.changes.at(-1)?.transactionHash;
  };

  for (let round = 0; round < ROUNDS; round++) {
    await subject.mineRandomBlocks(random.integer(1, 4));
    newest = await forks.record(newest);
    if (random.chance(0.5)) await waitUntilIndexed(database, subject.local);
    const depth = random.integer(1, 8);
    await subject.chain.revertBlocks(depth);
    await subject.mineRandomBlocks(depth + random.integer(0, 2));
    newest = await forks.record(newest - depth);
    await waitUntilIndexed(database, subject.local);
    await poll();
    await endPause();
    if (round % 3 === 1) {
      await restarted.stop();
      restarted = await restart();
    }
  }
  await subject.mineRandomBlocks(2 * FINALITY);
  newest = await forks.record(newest);
  await waitUntilIndexed(database, subject.local);
  await waitUntil("the readers have the newest block", () => {
    for (const { failure } of followers) if (failure) throw failure;
    return latest.newest === newest && client.newest === newest;
  });
  await waitUntil("the other reader has a final block", () => final.newest > newest - 2 * FINALITY);
  // A message at a time, each stored and settled: seconds for all of them, and more on a busy machine.
  await waitUntil("the receiver has the newest change", isToldOfAll, 120);
  await poll();
  for (const follower of followers) follower.stop();
  await restarted.stop();

  for (const { reached } of followers) {
    expect(reached.flatMap((each) => forks.compare(each))).toEqual([]);
    expect(reached.length).toBeGreaterThan(1);
  }
  expect(final.fold.undos).toBe(0);
  expect(latest.fold.undos).toBeGreaterThan(0);
  expect(receiver.attempts).toBeGreaterThan(receiver.fold.changes.length);
  expect(forks.compare({ number: newest, answers: forks.readAnswers(receiver.fold) })).toEqual([]);
  for (const fold of [polled, client.fold, receiver.fold]) {
    // A receiver that is slow hears of a reorg's changes only.
    if (fold !== receiver.fold) expect(fold.undos).toBeGreaterThan(0);
    expect(fold.changes).toEqual(
      latest.fold.changes.map((change) => expect.objectContaining({ ...change, final: expect.any(Boolean) })),
    );
  }
  console.log({
    connections: followers.map(({ connections }) => connections),
    progress: followers.map(({ reached }) => reached.length),
    undos: [latest.fold.undos, client.fold.undos, polled.undos, receiver.fold.undos],
    messages: [receiver.attempts, receiver.repeated],
    changes: followers.map(({ fold }) => fold.changes.length),
  });
});
