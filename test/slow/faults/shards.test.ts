import { expect, test } from "vitest";
import { startApi } from "../../support/api.ts";
import { startIndexerProcess } from "../../support/indexer-process.ts";
import { Random } from "../../support/random.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { connect, createDatabase, until, untilIndexed } from "../../support/setup.ts";
import { Subject } from "../../support/subject.ts";

test("two shards share a database, and neither the death of one nor that of its RPC disturbs the other", async () => {
  const random = new Random(5);
  const [op, base] = [await Subject.create(10, random), await Subject.create(8453, random)] as const;
  await op.mineRandomBlocks(40);
  await base.mineRandomBlocks(40);
  const rpc = await startRpcProxy(op.local.url);
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);

  // Both know both chains; CHAINS says which are whose.
  const chains = [{ chainId: 10, url: rpc.url }, base.local];
  const opShard = await startIndexerProcess({ databaseUrl, chains, env: { CHAINS: "10", SHARD: "shard_op" } });
  const baseShard = await startIndexerProcess({ databaseUrl, chains, env: { CHAINS: "8453", SHARD: "shard_base" } });
  await untilIndexed(database, op.local, { schema: "shard_op" });
  await untilIndexed(database, base.local, { schema: "shard_base" });

  for (const [schema, chainId] of [
    ["shard_op", 10],
    ["shard_base", 8453],
  ] as const) {
    for (const table of ["delegation_v1", "delegation_v2", "delegation_change", "indexed_block", "vault_v1"]) {
      const { rows } = await database.query(`select distinct chain_id::int as id from ${schema}.${table}`);
      expect(rows).toEqual([{ id: chainId }]);
    }
  }

  // The API answers for each chain from the shard that has it.
  const api = await startApi({ databaseUrl, env: { INDEX_SCHEMAS: "shard_op,shard_base" } });
  await op.expectSameAnswersOverHttp(api.url);
  // And so does SQL, for both.
  await op.expectSameAnswersInSql(databaseUrl);
  await base.expectSameAnswersInSql(databaseUrl);

  const expectBaseUndisturbed = async () => {
    await base.mineRandomBlocks(3);
    await untilIndexed(database, base.local, { schema: "shard_base", seconds: 10 });
    await base.expectSameAnswers(databaseUrl, "shard_base");
    await base.expectSameAnswersOverHttp(api.url);
  };

  // Its RPC is gone: the other chain goes on, and when the RPC is back, so does this one.
  rpc.intercept = () => ({ status: 503 });
  await op.mineRandomBlocks(3);
  await expectBaseUndisturbed();
  rpc.intercept = () => undefined;
  await untilIndexed(database, op.local, { schema: "shard_op", seconds: 120 });

  // It is killed: the other goes on.
  opShard.kill();
  await opShard.exited;
  await expectBaseUndisturbed();
  expect(baseShard.output()).not.toContain("starting it again");

  // And it comes back to where it was.
  await op.mineRandomBlocks(2);
  await startIndexerProcess({ databaseUrl, chains, env: { CHAINS: "10", SHARD: "shard_op" } });
  await untilIndexed(database, op.local, { schema: "shard_op", seconds: 120 });
  await op.expectSameAnswers(databaseUrl, "shard_op", [1, 5]);
  await op.expectSameAnswersOverHttp(api.url);
  await until("no index is left over", async () => {
    const { rows } = await database.query("select 1 from pg_namespace where nspname ~ '_[0-9a-f]{10}$'");
    return rows.length === 2;
  });
});
