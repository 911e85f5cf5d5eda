import { expect, test } from "vitest";
import { startTestApi } from "../../support/api.ts";
import { startIndexerProcess } from "../../support/indexer.ts";
import { Random } from "../../support/random.ts";
import { ComparedChain } from "../../support/random-chain.ts";
import { connectClient, createDatabase, waitUntil, waitUntilIndexed } from "../../support/setup.ts";

const TABLES = ["delegation_v1", "delegation_v2", "delegation_change", "indexed_block", "vault_v1"];

test("two shards of a database index their own chains, and one continues while the other is killed and restarted", async () => {
  const random = new Random(5);
  const [op, base] = [await ComparedChain.create(10, random), await ComparedChain.create(8453, random)];
  for (const subject of [op, base]) {
    subject.questions = subject.questions.filter(() => random.chance(0.3));
    await subject.mineRandomBlocks(20);
  }
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);

  // Both shards have the RPCs of both chains; CHAINS assigns them.
  const start = (SHARD: string, CHAINS: string) =>
    startIndexerProcess({ databaseUrl, chains: [op.local, base.local], env: { CHAINS, SHARD } });
  const opShard = await start("shard_op", "10");
  const baseShard = await start("shard_base", "8453");
  for (const [schema, { local }] of [
    ["shard_op", op],
    ["shard_base", base],
  ] as const) {
    await waitUntilIndexed(database, local, { schema });
    for (const table of TABLES) {
      const { rows } = await database.query(`select distinct chain_id::int as id from ${schema}.${table}`);
      expect(rows, `${schema}.${table}`).toEqual([{ id: local.chainId }]);
    }
  }
  const api = await startTestApi({ databaseUrl, env: { INDEX_SCHEMAS: "shard_op,shard_base" } });
  await op.expectSameAnswersOverHttp(api.url);
  await op.expectSameAnswersInSql(databaseUrl);
  await base.expectSameAnswersInSql(databaseUrl);

  opShard.kill();
  await opShard.exited;
  await base.mineRandomBlocks(3);
  await waitUntilIndexed(database, base.local, { schema: "shard_base", seconds: 10 });
  await base.expectSameAnswers(databaseUrl, "shard_base");
  await base.expectSameAnswersOverHttp(api.url);
  expect(baseShard.output()).not.toContain("starting it again");

  await op.mineRandomBlocks(2);
  await start("shard_op", "10");
  await waitUntilIndexed(database, op.local, { schema: "shard_op", seconds: 120 });
  await op.expectSameAnswers(databaseUrl, "shard_op", [1, 5]);
  await op.expectSameAnswersOverHttp(api.url);
  const readSchemas = async () =>
    (await database.query("select nspname from pg_namespace where nspname ~ '_[0-9a-f]{10}$'")).rows;
  await waitUntil("no other index is left", readSchemas, 60, (rows) => rows.length === 2);
});
