import { numberToHex } from "viem";
import { expect, test } from "vitest";
import { createIndexedSubject, requestBlock, revocationByContract } from "../../support/indexed-subject.ts";
import { until, untilIndexed } from "../../support/setup.ts";

const hashOf = (byte: string) => `0x${byte.repeat(32)}`;
/** A bloom filter that rules out the registries' logs, so that none are asked for. */
const NO_REGISTRY_LOGS = `0x${"0".repeat(511)}1`;

test("a revocation that a node on a fork could not tell is looked up again", async () => {
  const { subject, proxy, databaseUrl, database, indexer } = await createIndexedSubject(13, 3);
  const { chain, local, world } = subject;
  await subject.mineRandomBlocks(1);
  await untilIndexed(database, local);

  // The node that is asked for the state after the block has another block in its place; the chain has not.
  const number = (await local.client.getBlockNumber()) + 1n;
  let asked = 0;
  proxy.intercept = async ({ method, params }) => {
    if (method === "eth_call") return { error: { code: -32000, message: "header not found" } };
    if (method !== "eth_getBlockByNumber" || params[0] !== numberToHex(number)) return undefined;
    asked++;
    return { result: { ...(await requestBlock(local.url)), hash: hashOf("f0") } };
  };
  await chain.mine([revocationByContract(world)]);
  await until("the block is taken for orphaned", async () => asked > 0);

  // Of a block that was left open nothing is said; the next one has it looked up again.
  await until("nothing is said of the chain", async () => {
    const { rows } = await database.query("select 1 from registry.indexed_block");
    return rows.length === 0;
  });
  proxy.intercept = () => undefined;
  await chain.mine();
  await until("the indexer starts again", async () => /starting it again/.test(indexer.output()));
  await untilIndexed(database, local);
  await subject.expectSameAnswers(databaseUrl, "registry");
});

test("a block of a fork that is gone, named late, leads to no restart and to no wrong row", async () => {
  const { subject, proxy, databaseUrl, database, indexer } = await createIndexedSubject(17, 12);
  const { chain, local } = subject;
  await subject.mineEmptyBlocks(2);
  await untilIndexed(database, local);

  // The next block is seen late: when it comes, the chain has gone another way for three blocks.
  const pinned = await requestBlock(local.url);
  proxy.intercept = ({ method, params }) =>
    method === "eth_getBlockByNumber" && params[0] === "latest" ? { result: pinned } : undefined;
  await subject.mineEmptyBlocks(1);
  const late = { ...(await requestBlock(local.url)), logsBloom: NO_REGISTRY_LOGS };
  await chain.takeBack(3);
  await subject.mineRandomBlocks(3);
  proxy.intercept = () => undefined;
  await untilIndexed(database, local);

  let hasWalked = false;
  proxy.intercept = ({ method, params }) => {
    if (method === "eth_getBlockByHash") hasWalked = true;
    return method === "eth_getBlockByNumber" && params[0] === "latest" && !hasWalked ? { result: late } : undefined;
  };
  await until("the fork's parent is asked for", async () => hasWalked);
  await chain.takeBack(1);
  await subject.mineRandomBlocks(2);
  await untilIndexed(database, local, { seconds: 10 });
  await subject.expectSameAnswers(databaseUrl, "registry");
  expect(indexer.output()).not.toContain("starting it again");
});

test("rows of a block that Ponder forgot without undoing it are undone by a restart", async () => {
  const { subject, proxy, databaseUrl, database, indexer } = await createIndexedSubject(11, 12);
  const { chain, local } = subject;

  // For a moment the node names a block of a fork, then has no parent for it. Ponder drops its own
  // newest block to make room and fails before it has undone that block's rows.
  const head = await requestBlock(local.url);
  const forkBlock = {
    ...head,
    hash: hashOf("f0"),
    parentHash: hashOf("f1"),
    transactions: [],
    logsBloom: NO_REGISTRY_LOGS,
  };
  let hasFailed = false;
  proxy.intercept = ({ method, params }) => {
    if (method === "eth_getBlockByNumber" && params[0] === "latest" && !hasFailed) {
      return { result: forkBlock };
    }
    if (method === "eth_getBlockByHash") {
      hasFailed = true;
      return { result: null };
    }
    return undefined;
  };
  await until("the fork's parent is asked for", async () => hasFailed);

  // The chain replaces that very block: to Ponder, its successor fits.
  await chain.takeBack(1);
  await subject.mineRandomBlocks(2);
  proxy.intercept = () => undefined;
  await until("the indexer starts again", async () => /starting it again/.test(indexer.output()));
  await untilIndexed(database, local);
  await subject.expectSameAnswers(databaseUrl, "registry");
});
