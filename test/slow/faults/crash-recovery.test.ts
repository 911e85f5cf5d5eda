import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { dumpTables, findIndexes } from "../../support/index-state.ts";
import { startIndexerProcess } from "../../support/indexer.ts";
import { seededRandom } from "../../support/random.ts";
import { ComparedChain } from "../../support/random-chain.ts";
import { holdLogsAfter, startRpcProxy } from "../../support/rpc-proxy.ts";
import { connectClient, createDatabase, waitUntil, waitUntilIndexed } from "../../support/setup.ts";

const FINALITY = 30;
const FIRST_RANGE = 30;

test("a Ponder killed three times, during backfill and a reorg, has the same rows as one that was never interrupted", async () => {
  const random = seededRandom(import.meta.filename);
  const subject = await ComparedChain.create(8453, random);
  subject.questions = subject.questions.filter(() => random.chance(0.1));
  await subject.mineRandomBlocks(FIRST_RANGE + FINALITY + 15);
  const rpc = await startRpcProxy(subject.local.url);
  const chains = [{ chainId: 8453, url: rpc.url }];
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);

  // So that the backfill is killed before its end.
  const hold = holdLogsAfter(rpc, FIRST_RANGE);
  const indexer = await startIndexerProcess({ databaseUrl, chains });
  const killPonder = async () => {
    const countKills = () => indexer.output().split("was ended by SIGKILL").length;
    const before = countKills();
    indexer.killPonder();
    await waitUntil("the indexer notices that Ponder was killed", () => countKills() > before);
  };
  /** Reads the progress of an index that the views do not show yet. */
  const readBackfill = async () => {
    const [schema] = await findIndexes(database);
    const count = (table: string) => `(select count(*)::int from ${schema}.${table})`;
    const progress = `select ${count("delegation_change")} as changes, ${count("_ponder_checkpoint")} as checkpoints,
      (select (value->>'is_ready')::int from ${schema}._ponder_meta) as ready`;
    return (await database.query(progress).catch(() => ({ rows: [] }))).rows[0];
  };
  for (const stored of ["checkpoints", "changes"]) {
    const isStored = (now: Record<string, number> | undefined) => (now?.[stored] ?? 0) > 0;
    expect(await waitUntil(`the backfill has stored ${stored}`, readBackfill, 60, isStored)).toMatchObject({
      ready: 0,
    });
    await killPonder();
  }
  hold.release();
  await waitUntilIndexed(database, subject.local, { seconds: 120 });
  await subject.expectSameAnswers(databaseUrl, "registry", [1, 40]);

  await subject.mineRandomBlocks(6);
  // Hits any step of indexing a block.
  await sleep(random.integer(0, 400));
  await killPonder();
  await subject.chain.revertBlocks(4);
  await subject.mineRandomBlocks(5);
  await subject.mineEmptyBlocks(FINALITY + 1);
  await waitUntilIndexed(database, subject.local);

  const freshUrl = await createDatabase();
  await startIndexerProcess({ databaseUrl: freshUrl, chains });
  await waitUntilIndexed(await connectClient(freshUrl), subject.local);
  expect(await dumpTables(freshUrl, "registry")).toEqual(await dumpTables(databaseUrl, "registry"));
});
