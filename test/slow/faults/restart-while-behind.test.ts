import { expect, test } from "vitest";
import { Random } from "../../support/random.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { connect, createDatabase, startIndexer, until, untilIndexed } from "../../support/setup.ts";
import { Subject } from "../../support/subject.ts";

// After a restart a chain's rows run ahead of its last published block, until the newest block is indexed.

const FINALITY = 30;

test("a chain that is behind after a restart has no indexed block, also while another chain has reorgs", async () => {
  const random = new Random(47);
  const behind = await Subject.create(8453, random);
  await behind.mineRandomBlocks(4);
  const other = await Subject.create(10, random);
  await other.mineRandomBlocks(4);
  const proxy = await startRpcProxy(behind.local.url);

  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  const indexer = await startIndexer({ databaseUrl, chains: [{ chainId: 8453, url: proxy.url }, other.local] });
  await untilIndexed(database, behind.local);
  await untilIndexed(database, other.local);

  // The index misses blocks that become final, and after the restart gets only those for a while.
  let release = () => {};
  const released = new Promise<undefined>((resolve) => {
    release = () => resolve(undefined);
  });
  proxy.intercept = () => released;
  const told = await behind.local.client.getBlockNumber();
  await behind.mineRandomBlocks(FINALITY + 6);
  const final = Number(told) + 6;
  indexer.killPonder();
  proxy.intercept = ({ method, params }) =>
    method === "eth_getBlockByNumber" && Number(params[0]) > final ? released : undefined;

  const { rows } = await database.query("select schema from indexer.shard");
  const { schema } = rows[0];
  const blocks = async () =>
    (await database.query(`select chain_id::int, number::int from ${schema}.indexed_block order by 1`)).rows;
  const untilOtherAt = async () => {
    const number = Number(await other.local.client.getBlockNumber());
    await until(`chain 10 is at ${number}`, blocks, 60, (rows) => rows.some((row) => row.number === number));
    return [{ chain_id: 10, number }];
  };

  await until("history has been indexed", async () => {
    const newer = `select 1 from ${schema}.delegation_change where chain_id = 8453 and block_number > ${told}`;
    return (await database.query(newer)).rows.length > 0;
  });
  expect((await blocks()).map((row) => row.chain_id)).not.toContain(8453);
  expect(await untilOtherAt()).toEqual(await blocks());
  for (const depth of [1, 3]) {
    await other.mineRandomBlocks(depth);
    await untilOtherAt();
    await other.chain.takeBack(depth);
    await other.mineRandomBlocks(depth + 1);
    expect(await untilOtherAt(), `after a reorg of ${depth}`).toEqual(await blocks());
  }

  proxy.intercept = () => undefined;
  release();
  for (const subject of [behind, other]) {
    await untilIndexed(database, subject.local, { seconds: 90 });
    await subject.expectSameAnswers(databaseUrl, "registry", [1, 3]);
  }
});
