import { createClient, http, numberToHex } from "viem";
import { test } from "vitest";
import { encodeV1 } from "../sandbox/calls.ts";
import { Random } from "./support/random.ts";
import { startRpcProxy } from "./support/rpc-proxy.ts";
import { connect, createDatabase, startIndexer, until, untilIndexed } from "./support/setup.ts";
import { Subject } from "./support/subject.ts";
import { transactionBy } from "./support/world.ts";

const hashOf = (byte: string) => `0x${byte.repeat(32)}`;
/** A bloom filter that rules out the registries' logs, so that none are asked for. */
const NO_REGISTRY_LOGS = `0x${"0".repeat(511)}1`;

const requestBlock = async (url: string): Promise<object> => {
  const client = createClient({ transport: http(url) });
  const block = await client.request({ method: "eth_getBlockByNumber", params: ["latest", true] });
  if (!block) throw new Error("The chain has no block.");
  return block;
};

test("a revocation that a node on a fork could not tell is looked up again", async () => {
  const subject = await Subject.create(8453, new Random(13));
  const { chain, local, world } = subject;
  await subject.mineRandomBlocks(3);
  const proxy = await startRpcProxy(local.url);
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  const indexer = await startIndexer({ databaseUrl, chains: [{ chainId: local.chainId, url: proxy.url }] });
  await untilIndexed(database, local);
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
  const [safe] = world.wallets.filter(({ isContract }) => isContract);
  const [friend, guest] = world.wallets.map(({ address }) => address);
  if (!safe || !friend || !guest) throw new Error("The world lacks wallets.");
  const calls = [
    encodeV1("delegateForAll", [friend, true]),
    encodeV1("delegateForAll", [guest, true]),
    encodeV1("revokeDelegate", [guest]),
  ].map((data) => ({ target: world.v1, data }));
  await chain.mine([transactionBy(world, safe, calls)]);
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

test("rows of a block that Ponder forgot without undoing it are undone by a restart", async () => {
  const subject = await Subject.create(8453, new Random(11));
  const { chain, local } = subject;
  await subject.mineRandomBlocks(12);

  const proxy = await startRpcProxy(local.url);
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  const indexer = await startIndexer({ databaseUrl, chains: [{ chainId: local.chainId, url: proxy.url }] });
  await untilIndexed(database, local);

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
