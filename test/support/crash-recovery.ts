import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { dumpTables, findIndexes } from "./index-state.ts";
import { startIndexerProcess } from "./indexer.ts";
import type { Random } from "./random.ts";
import { connect, createDatabase, until, untilIndexed } from "./setup.ts";
import { Subject } from "./subject.ts";

const FINALITY = 30;

type Options = {
  random: Random;
  /** The share of all checks to compare, drawn at random. Lists are always compared. */
  share?: number;
  /** Random blocks to backfill. */
  history: number;
  /** Kills Ponder during the backfill, each time as soon as it has stored these. */
  duringBackfill?: readonly ("checkpoints" | "changes")[];
  /** Kills Ponder while it follows the chain, each time with a reorg of so many blocks before it is back. */
  live: readonly number[];
  /** Compares every row with an index that was never interrupted. */
  isReindexed?: boolean;
};

/** Kills Ponder, then the whole indexer, and expects the registries' own answers after each recovery. */
export const expectCrashRecovery = async (options: Options) => {
  const { random, share = 1, history, duringBackfill = [], live, isReindexed } = options;
  const subject = await Subject.create(8453, random);
  subject.questions = subject.questions.filter(() => random.chance(share));
  const chains = [subject.local];
  await subject.mineRandomBlocks(history);
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  const indexer = await startIndexerProcess({ databaseUrl, chains });

  /** How far the index is, before its views show it. */
  const readBackfill = async (): Promise<{ checkpoints: number; changes: number; ready: number } | null> => {
    const [schema] = await findIndexes(database);
    if (!schema) return null;
    const { rows } = await database
      .query(
        `select (select count(*)::int from ${schema}.delegation_change) as changes,
                (select (value->>'is_ready')::int from ${schema}._ponder_meta) as ready,
                (select count(*)::int from ${schema}._ponder_checkpoint) as checkpoints`,
      )
      .catch(() => ({ rows: [] }));
    return rows[0] ?? null;
  };
  const killPonder = async () => {
    const kills = () => indexer.output().split("was ended by SIGKILL").length;
    const before = kills();
    indexer.killPonder();
    await until("the indexer notices that Ponder was killed", () => kills() > before);
  };

  for (const stored of duringBackfill) {
    const state = await until(`the backfill has stored ${stored}`, readBackfill, 60, (now) => (now?.[stored] ?? 0) > 0);
    expect(state).toMatchObject({ ready: 0 });
    await killPonder();
  }
  await untilIndexed(database, subject.local);
  await subject.expectSameAnswers(databaseUrl, "registry");

  for (const depth of live) {
    await subject.mineRandomBlocks(6);
    // Any moment of a block's way into the index.
    await sleep(random.integer(0, 400));
    await killPonder();
    if (depth > 0) await subject.chain.takeBack(depth);
    await subject.mineRandomBlocks(5);
    await untilIndexed(database, subject.local);
  }

  await subject.mineRandomBlocks(3);
  indexer.kill();
  await indexer.exited;
  await subject.mineRandomBlocks(3);
  const next = await startIndexerProcess({ databaseUrl, chains });
  await untilIndexed(database, subject.local);
  // The lock that the killed Ponder left behind costs no time.
  expect(next.output()).not.toContain("Schema is locked");
  await subject.expectSameAnswers(databaseUrl, "registry", [1, 10]);

  if (!isReindexed) return;
  await subject.mineEmptyBlocks(FINALITY + 1);
  await untilIndexed(database, subject.local);
  const freshUrl = await createDatabase();
  const fresh = await connect(freshUrl);
  await startIndexerProcess({ databaseUrl: freshUrl, chains });
  await untilIndexed(fresh, subject.local);
  expect(await dumpTables(freshUrl, "registry")).toEqual(await dumpTables(databaseUrl, "registry"));
};
