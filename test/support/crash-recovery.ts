import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { ComparedChain } from "./compared-chain.ts";
import { dumpTables, findIndexes } from "./index-state.ts";
import { startIndexerProcess } from "./indexer.ts";
import type { Random } from "./random.ts";
import { connectClient, createDatabase, waitUntil, waitUntilIndexed } from "./setup.ts";

const FINALITY = 30;

type Options = {
  random: Random;
  /** The share of all checks to compare, drawn at random. Lists are always compared. */
  share?: number;
  /** Random blocks to backfill. */
  history: number;
  /** Kills Ponder during the backfill: once for each entry, when such rows are stored. */
  duringBackfill?: readonly ("checkpoints" | "changes")[];
  /** Kills Ponder while it follows the chain: once for each entry, with a reorg of this depth before it restarts. */
  live: readonly number[];
  /** Also compares every row with an index that was never interrupted. */
  isReindexed?: boolean;
};

/** Kills Ponder, then the whole indexer, and expects the registries' own answers after each recovery. */
export const expectCrashRecovery = async (options: Options) => {
  const { random, share = 1, history, duringBackfill = [], live, isReindexed } = options;
  const subject = await ComparedChain.create(8453, random);
  subject.questions = subject.questions.filter(() => random.chance(share));
  const chains = [subject.local];
  await subject.mineRandomBlocks(history);
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const indexer = await startIndexerProcess({ databaseUrl, chains });

  /** Reads the progress of an index that the views do not show yet. */
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
    await waitUntil("the indexer notices that Ponder was killed", () => kills() > before);
  };

  for (const stored of duringBackfill) {
    const state = await waitUntil(
      `the backfill has stored ${stored}`,
      readBackfill,
      60,
      (now) => (now?.[stored] ?? 0) > 0,
    );
    expect(state).toMatchObject({ ready: 0 });
    await killPonder();
  }
  await waitUntilIndexed(database, subject.local);
  await subject.expectSameAnswers(databaseUrl, "registry");

  for (const depth of live) {
    await subject.mineRandomBlocks(6);
    // Hits any step of indexing a block.
    await sleep(random.integer(0, 400));
    await killPonder();
    if (depth > 0) await subject.chain.revertBlocks(depth);
    await subject.mineRandomBlocks(5);
    await waitUntilIndexed(database, subject.local);
  }

  await subject.mineRandomBlocks(3);
  indexer.kill();
  await indexer.exited;
  await subject.mineRandomBlocks(3);
  const next = await startIndexerProcess({ databaseUrl, chains });
  await waitUntilIndexed(database, subject.local);
  // The indexer does not wait for the lock that the killed Ponder left behind.
  expect(next.output()).not.toContain("Schema is locked");
  await subject.expectSameAnswers(databaseUrl, "registry", [1, 10]);

  if (!isReindexed) return;
  await subject.mineEmptyBlocks(FINALITY + 1);
  await waitUntilIndexed(database, subject.local);
  const freshUrl = await createDatabase();
  const fresh = await connectClient(freshUrl);
  await startIndexerProcess({ databaseUrl: freshUrl, chains });
  await waitUntilIndexed(fresh, subject.local);
  expect(await dumpTables(freshUrl, "registry")).toEqual(await dumpTables(databaseUrl, "registry"));
};
