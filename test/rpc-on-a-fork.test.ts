import { createClient, http } from "viem";
import { test } from "vitest";
import { Random } from "./support/random.ts";
import { startRpcProxy } from "./support/rpc-proxy.ts";
import { connect, createDatabase, startIndexer, until, untilIndexed } from "./support/setup.ts";
import { Subject } from "./support/subject.ts";

const hashOf = (byte: string) => `0x${byte.repeat(32)}`;
/** A bloom filter that rules out the registries' logs, so that none are asked for. */
const NO_REGISTRY_LOGS = `0x${"0".repeat(511)}1`;

const requestBlock = async (url: string): Promise<object> => {
  const client = createClient({ transport: http(url) });
  const block = await client.request({ method: "eth_getBlockByNumber", params: ["latest", true] });
  if (!block) throw new Error("The chain has no block.");
  return block;
};

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
