import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { startTestApi } from "./api.ts";
import { dumpTables, expectCorrectSums, REGISTRIES, readDigest } from "./index-state.ts";
import { addKey } from "./keys.ts";
import type { Random } from "./random.ts";
import { ComparedChain } from "./random-chain.ts";
import { connectClient, createDatabase, startIndexer, waitUntil, waitUntilIndexed } from "./setup.ts";

// Two networks with both registries. Ponder treats their blocks as final after 30 more.
const CHAIN_IDS = [10, 8453] as const;
const FINALITY = 30;
/** The API publishes the digests of every thousandth block once it is final. */
const DIGEST_BLOCK = 1000n;
const SECONDS_TO_UNDO = 10;
/** On a busy machine the backfill of a thousand blocks takes more than a minute. */
const BACKFILL_SECONDS = 180;

type Options = {
  random: Random;
  /** Random share of all checks to compare. Lists, history and digests are always compared. */
  share?: number;
  /** Random blocks to mine before and after the empty ones. All of them are backfilled. */
  history: number;
  rounds: number;
  /** Number of rounds with a reorg. Every second one happens while blocks are being indexed. */
  reorgs: number;
  /** Also compares after the backfill, and halfway at these distances from the newest block. */
  alsoHalfway?: readonly number[];
  /** Distances from the newest block for the final comparison. */
  blocksBack: readonly number[];
  /** Also compares every row with a fresh index of the same chains, in another shard. */
  isReindexed?: boolean;
};

/** Indexes random operations and reorgs, and compares every way to read the index with the registries. */
export const runDifferential = async (options: Options) => {
  const { random, share = 1, history, rounds, reorgs, alsoHalfway, blocksBack } = options;
  const subjects = [
    await ComparedChain.create(CHAIN_IDS[0], random),
    await ComparedChain.create(CHAIN_IDS[1], random),
  ] as const;
  const chains = subjects.map(({ local }) => local);
  for (const subject of subjects) {
    subject.questions = subject.questions.filter(() => random.chance(share));
    await subject.mineRandomBlocks(history);
    await subject.mineUpTo(DIGEST_BLOCK);
    await subject.mineRandomBlocks(FINALITY + history);
  }

  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  await startIndexer({ databaseUrl, chains });
  const api = await startTestApi({ databaseUrl });
  const { key } = await addKey(database);
  const compare = async (back: readonly number[]) => {
    for (const subject of subjects) {
      await waitUntilIndexed(database, subject.local);
      await subject.expectSameAnswers(databaseUrl, "registry", back);
      await subject.expectSameAnswersOverHttp(api.url, key, { blocksBack: [0, ...back] });
      await subject.expectSameWallets(api.url, database, back);
      await subject.expectSameAnswersInSql(databaseUrl, back);
      await subject.expectSameDigests(database, back);
    }
  };
  for (const chain of chains) await waitUntilIndexed(database, chain, { seconds: BACKFILL_SECONDS });
  if (alsoHalfway) await compare([]);

  let blocksUndone = 0;
  let slowestMs = 0;
  const undone = new Set<string>();
  for (let round = 0; round < rounds; round++) {
    const subject = random.pick(subjects);
    await subject.mineRandomBlocks(random.integer(1, 3));
    if (round < reorgs) {
      if (round % 2 === 1) await sleep(random.integer(0, 400));
      else await waitUntilIndexed(database, subject.local);
      const depth = random.integer(1, 10);
      for (const event of await subject.readNewestEvents(depth)) undone.add(event);
      await subject.chain.revertBlocks(depth);
      await subject.mineRandomBlocks(depth + random.integer(0, 2));
      const replacedAt = Date.now();
      await waitUntilIndexed(database, subject.local, { seconds: SECONDS_TO_UNDO });
      slowestMs = Math.max(slowestMs, Date.now() - replacedAt);
      blocksUndone += depth;
    }
    if (alsoHalfway && round === rounds / 2) await compare(alsoHalfway);
  }
  await compare(blocksBack);
  await expectCorrectSums(database);
  for (const subject of subjects) {
    const published = await waitUntil("the API publishes the digests", () => subject.readPublishedDigests(api.url));
    expect(published?.block).toBe(Number(DIGEST_BLOCK));
    expect(published?.v2).not.toBe(await readDigest(database, subject.local.chainId, "v2"));
    expect(await subject.comparePublishedDigests(api.url)).toEqual([]);
  }

  if (options.isReindexed) {
    const shard = "elsewhere";
    for (const subject of subjects) {
      await subject.mineEmptyBlocks(FINALITY + 1);
      await waitUntilIndexed(database, subject.local);
    }
    const freshUrl = await createDatabase();
    const fresh = await connectClient(freshUrl);
    await startIndexer({ databaseUrl: freshUrl, chains, env: { SHARD: shard } });
    for (const chain of chains) await waitUntilIndexed(fresh, chain, { schema: shard });
    expect(await dumpTables(freshUrl, shard)).toEqual(await dumpTables(databaseUrl, "registry"));
    for (const { chainId } of chains) {
      for (const registry of REGISTRIES) {
        const digest = await waitUntil("the fresh index has digests", () =>
          readDigest(fresh, chainId, registry).catch(() => null),
        );
        expect(digest).toBe(await readDigest(database, chainId, registry));
      }
    }
  }

  const counters = [
    "operations",
    "answers",
    "answersOverHttp",
    "answersAboutWallets",
    "answersInSql",
    "digests",
  ] as const;
  const counts = Object.fromEntries(
    counters.map((counter) => [counter, subjects.reduce((sum, subject) => sum + subject[counter], 0)]),
  ) as Record<(typeof counters)[number], number>;
  console.log({ ...counts, reorgs, blocksUndone, slowestMs }, "Undone events:", [...undone].join(", "));
  return { ...counts, undone };
};
