import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { expectRightSums } from "./activity.ts";
import { startApi } from "./api.ts";
import { dumpTables } from "./index-state.ts";
import { addKey } from "./keys.ts";
import type { Random } from "./random.ts";
import { REGISTRIES, readDigest } from "./registry-digest.ts";
import { connect, createDatabase, startIndexer, until, untilIndexed } from "./setup.ts";
import { Subject } from "./subject.ts";

// Two networks with both registries. Ponder takes their blocks for final after 30 more.
const CHAIN_IDS = [10, 8453] as const;
const FINALITY = 30;
/** The API publishes the digests of every thousandth block once it is final. */
const DIGEST_BLOCK = 1000n;
const SECONDS_TO_UNDO = 10;

type Options = {
  random: Random;
  /** The share of all checks to compare, drawn at random. Lists, history and digests are always compared. */
  share?: number;
  /** Random blocks before and after the blocks that are mined empty: together they are backfilled. */
  history: number;
  rounds: number;
  /** How many of the rounds replace blocks: every second time while the index is on its way to them. */
  reorgs: number;
  /** Compares everything after the backfill, and halfway at these blocks before the newest one. */
  alsoHalfway?: readonly number[];
  /** How far before the newest block the final comparison goes. */
  blocksBack: readonly number[];
  /** Compares every row with a fresh index of the same chains, in another deployment. */
  isReindexed?: boolean;
};

/** Lets an index follow random operations and reorgs, and compares every way to read it with the registries. */
export const runDifferential = async (options: Options) => {
  const { random, share = 1, history, rounds, reorgs, alsoHalfway, blocksBack } = options;
  const subjects = [await Subject.create(CHAIN_IDS[0], random), await Subject.create(CHAIN_IDS[1], random)] as const;
  const chains = subjects.map(({ local }) => local);
  for (const subject of subjects) {
    subject.questions = subject.questions.filter(() => random.chance(share));
    await subject.mineRandomBlocks(history);
    await subject.mineUpTo(DIGEST_BLOCK);
    await subject.mineRandomBlocks(FINALITY + history);
  }

  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  await startIndexer({ databaseUrl, chains });
  const api = await startApi({ databaseUrl });
  const { key } = await addKey(database);
  const compare = async (back: readonly number[]) => {
    for (const subject of subjects) {
      await untilIndexed(database, subject.local);
      await subject.expectSameAnswers(databaseUrl, "registry", back);
      await subject.expectSameAnswersOverHttp(api.url, key);
      await subject.expectSameInExplorer(api.url, back);
      await subject.expectSameAnswersInSql(databaseUrl, back);
      await subject.expectSameDigests(database, back);
    }
  };
  if (alsoHalfway) await compare([]);
  else for (const chain of chains) await untilIndexed(database, chain);

  let blocksUndone = 0;
  let slowestMs = 0;
  const undone = new Set<string>();
  for (let round = 0; round < rounds; round++) {
    const subject = random.pick(subjects);
    await subject.mineRandomBlocks(random.integer(1, 3));
    if (round < reorgs) {
      if (round % 2 === 1) await sleep(random.integer(0, 400));
      else await untilIndexed(database, subject.local);
      const depth = random.integer(1, 10);
      for (const event of await subject.newestEvents(depth)) undone.add(event);
      await subject.chain.takeBack(depth);
      await subject.mineRandomBlocks(depth + random.integer(0, 2));
      const replacedAt = Date.now();
      await untilIndexed(database, subject.local, { seconds: SECONDS_TO_UNDO });
      slowestMs = Math.max(slowestMs, Date.now() - replacedAt);
      blocksUndone += depth;
    }
    if (alsoHalfway && round === rounds / 2) await compare(alsoHalfway);
  }
  await compare(blocksBack);
  await expectRightSums(database);
  for (const subject of subjects) {
    const told = await until("the API publishes the digests", () => subject.readToldDigests(api.url));
    expect(told?.block).toBe(Number(DIGEST_BLOCK));
    expect(told?.v2).not.toBe(await readDigest(database, subject.local.chainId, "v2"));
    expect(await subject.compareToldDigests(api.url)).toEqual([]);
  }

  if (options.isReindexed) {
    const shard = "elsewhere";
    for (const subject of subjects) {
      await subject.mineEmptyBlocks(FINALITY + 1);
      await untilIndexed(database, subject.local);
    }
    const freshUrl = await createDatabase();
    const fresh = await connect(freshUrl);
    await startIndexer({ databaseUrl: freshUrl, chains, env: { SHARD: shard } });
    for (const chain of chains) await untilIndexed(fresh, chain, { schema: shard });
    expect(await dumpTables(freshUrl, shard)).toEqual(await dumpTables(databaseUrl, "registry"));
    for (const { chainId } of chains) {
      for (const registry of REGISTRIES) {
        const digest = await until("the fresh index has digests", () =>
          readDigest(fresh, chainId, registry).catch(() => null),
        );
        expect(digest).toBe(await readDigest(database, chainId, registry));
      }
    }
  }

  const tallies = ["operations", "answers", "answersOverHttp", "answersOfExplorer", "answersInSql", "digests"] as const;
  const counts = Object.fromEntries(
    tallies.map((tally) => [tally, subjects.reduce((sum, subject) => sum + subject[tally], 0)]),
  ) as Record<(typeof tallies)[number], number>;
  console.log({ ...counts, reorgs, blocksUndone, slowestMs }, "Undone events:", [...undone].join(", "));
  return { ...counts, undone };
};
