import { expect, test } from "vitest";
import { readServedSchema } from "../../support/index-copy.ts";
import { Random } from "../../support/random.ts";
import { ComparedChain } from "../../support/random-chain.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { connectClient, createDatabase, startIndexer, waitUntil, waitUntilIndexed } from "../../support/setup.ts";

// After a restart a chain's rows are ahead of its last published block until the newest block is indexed.

const FINALITY = 30;
/** Share of the checks to compare. Lists, which hold everything, are always compared. */
const COMPARED = 0.1;

test("a chain that is behind after a restart has no indexed block, even while another chain has reorgs", async () => {
  const random = new Random(47);
  const create = async (chainId: number) => {
    const subject = await ComparedChain.create(chainId, random);
    subject.questions = subject.questions.filter(() => random.chance(COMPARED));
    await subject.mineRandomBlocks(4);
    return subject;
  };
  const [behind, other] = [await create(8453), await create(10)];
  const proxy = await startRpcProxy(behind.local.url);

  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const indexer = await startIndexer({ databaseUrl, chains: [{ chainId: 8453, url: proxy.url }, other.local] });
  await waitUntilIndexed(database, behind.local);
  await waitUntilIndexed(database, other.local);

  // The index misses blocks that become final, and gets only those for a while after the restart.
  let release = () => {};
  const released = new Promise<undefined>((resolve) => {
    release = () => resolve(undefined);
  });
  proxy.intercept = () => released;
  const lastPublished = await behind.local.client.getBlockNumber();
  await behind.mineRandomBlocks(6);
  await behind.mineEmptyBlocks(FINALITY);
  const final = Number(lastPublished) + 6;
  indexer.killPonder();
  proxy.intercept = ({ method, params }) =>
    method === "eth_getBlockByNumber" && Number(params[0]) > final ? released : undefined;

  const schema = await readServedSchema(database);
  const blocks = async () =>
    (await database.query(`select chain_id::int, number::int from ${schema}.indexed_block order by 1`)).rows;
  const untilOtherAt = async () => {
    const number = Number(await other.local.client.getBlockNumber());
    await waitUntil(`chain 10 is at ${number}`, blocks, 60, (rows) => rows.some((row) => row.number === number));
    return [{ chain_id: 10, number }];
  };

  await waitUntil("missed blocks are indexed", async () => {
    const newer = `select 1 from ${schema}.delegation_change where chain_id = 8453 and block_number > ${lastPublished}`;
    return (await database.query(newer)).rows.length > 0;
  });
  expect((await blocks()).map((row) => row.chain_id)).not.toContain(8453);
  expect(await untilOtherAt()).toEqual(await blocks());
  for (const depth of [1, 3]) {
    await other.mineRandomBlocks(depth);
    await untilOtherAt();
    await other.chain.revertBlocks(depth);
    await other.mineRandomBlocks(depth + 1);
    expect(await untilOtherAt(), `after a reorg of ${depth}`).toEqual(await blocks());
  }

  proxy.intercept = () => undefined;
  release();
  for (const subject of [behind, other]) {
    await waitUntilIndexed(database, subject.local, { seconds: 90 });
    await subject.expectSameAnswers(databaseUrl, "registry", [1, 3]);
  }
});
