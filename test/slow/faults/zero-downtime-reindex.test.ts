import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { startCountingStack } from "../../../faults/counting-chain.ts";
import { type Fault, reindexed } from "../../../faults/faults.ts";
import { runFaults } from "../../../faults/run-faults.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { startIndexerProcess } from "../../support/indexer.ts";
import { connectClient, waitUntil } from "../../support/setup.ts";

const CHAIN_ID = 8453;
const LOAD = { connections: 4, perSecond: 150 };

/** Each reads a block and the amount that a vault delegates, which is the block's number. */
const READS = [
  `select number::int as block, (select amount from registry.delegation_v2 where type = 'ERC20')
   from registry.indexed_block where chain_id = ${CHAIN_ID}`,
  `select analytics.known_block(${CHAIN_ID})::int as block,
     (select amount from analytics.delegations where token_standard = 'ERC20')`,
];

test("a restart resumes the index, and a re-index fails no request, never answers from an older block, and is always right", async () => {
  // Longer than an overloaded machine pauses.
  const apiEnv = { MAX_INDEX_LAG_SECONDS: "300" };
  const { stack, stop } = await startCountingStack({ chainIds: [CHAIN_ID], apis: 2, apiEnv, history: 40 });
  onTestFinished(() => stop());
  const database = await connectClient(stack.databaseUrl);
  const original = await readServedSchema(database);
  await stack.stopIndexer();
  await stack.startIndexer();
  await stack.untilRecovered();
  expect(await readServedSchema(database)).toBe(original);
  expect(stack.indexer.output()).toContain("Detected crash recovery");
  expect(stack.indexer.output()).not.toContain("Created database tables");

  // A second indexer of the same index is refused.
  const second = await startIndexerProcess(stack.indexerOptions);
  expect(await second.exited).toEqual({ code: 1, signal: null });
  expect(second.output()).toContain("Another indexer is running the same index");

  let isOver = false;
  const readers = READS.map(async (text) => {
    const reader = await connectClient(stack.databaseUrl);
    const seen: { block: number; amount: string }[] = [];
    for (; !isOver; await sleep(5)) seen.push((await reader.query(text)).rows[0]);
    return seen;
  });

  const reindex: Fault = {
    ...reindexed,
    run: async () => {
      const [old, superseded] = [await readServedSchema(database), stack.indexer];
      await reindexed.run(stack);
      // The old indexer ends when the new one has taken over.
      expect(await superseded.exited).toEqual({ code: 0, signal: null });
      expect(superseded.output()).toContain("is superseded");
      expect(await readServedSchema(database)).not.toBe(old);
      const readDropped = async () => (await database.query("select to_regnamespace($1) as schema", [old])).rows[0];
      await waitUntil("the old index is dropped", readDropped, 60, ({ schema }) => schema === null);
      await waitUntil("the indexer logs the drop", () => stack.indexer.output().includes(`Dropped ${old}`), 10);
    },
  };
  const otherColumns: Fault = {
    name: "views with other columns, which cannot be replaced in place",
    run: async () => {
      const schema = await readServedSchema(database);
      for (const view of ["delegation_v1", "delegation_v2"]) {
        await database.query(`create or replace view registry.${view} as select *, 1 as more from ${schema}.${view}`);
      }
    },
  };
  const { answered, errors, problems } = await runFaults(stack, [reindex, otherColumns, reindex], { load: LOAD });
  isOver = true;

  console.log(`${answered} answers during two re-indexes.`);
  expect(problems).toEqual([]);
  expect(errors).toEqual([]);
  expect(answered).toBeGreaterThan(1000);
  const { rows: columns } = await database.query(
    "select from information_schema.columns where table_schema = 'registry' and column_name = 'more'",
  );
  expect(columns).toEqual([]);
  for (const seen of await Promise.all(readers)) {
    expect(seen.filter(({ block, amount }) => amount !== String(block))).toEqual([]);
    expect(seen).toEqual(seen.toSorted((a, b) => a.block - b.block));
    // Many blocks, not a few jumps.
    expect(new Set(seen.map(({ block }) => block)).size).toBeGreaterThan(10);
  }
});
