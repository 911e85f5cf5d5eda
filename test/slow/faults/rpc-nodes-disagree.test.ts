import { createClient, http, numberToHex } from "viem";
import { expect, test } from "vitest";
import { readIndexedHash } from "../../support/index-state.ts";
import { Random } from "../../support/random.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { connect, createDatabase, startIndexer, until, untilIndexed } from "../../support/setup.ts";
import { Subject } from "../../support/subject.ts";

// Two endpoints whose nodes have gone different ways. Each is the only one that answers for a while.

const FORK = 4;
const ROUNDS = 3;

type Proxy = Awaited<ReturnType<typeof startRpcProxy>>;

/** What a node says of its newest blocks, to be said again when the chain has gone another way. */
const recordFork = async (url: string, blocks: number) => {
  const node = createClient({ transport: http(url) });
  const answers = new Map<string, unknown>();
  const ask = async (method: string, params: unknown[]) => {
    const result = await node.request({ method, params } as never);
    answers.set(JSON.stringify([method, params]), result);
    return result as { hash: string; number: `0x${string}` };
  };
  const head = await ask("eth_getBlockByNumber", ["latest", true]);
  for (let back = 0; back < blocks; back++) {
    const number = numberToHex(Number(head.number) - back);
    const { hash } = await ask("eth_getBlockByNumber", [number, true]);
    for (const whole of [true, false]) await ask("eth_getBlockByHash", [hash, whole]);
    await ask("eth_getLogs", [{ blockHash: hash }]);
  }
  return { head, answers };
};

test("an index that is led from one node's chain to another's and back is right on each, and ends on the one that lasts", async () => {
  const subject = await Subject.create(8453, new Random(37));
  await subject.mineRandomBlocks(8);
  const { local, chain } = subject;
  const [one, other] = [await startRpcProxy(local.url), await startRpcProxy(local.url)];
  const silence = (proxy: Proxy) => {
    proxy.intercept = () => ({ status: 503 });
  };
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  const indexer = await startIndexer({
    databaseUrl,
    chains: [{ chainId: local.chainId, url: `${one.url},${other.url}` }],
  });
  await untilIndexed(database, local);

  // The other node stays where the chain was; the chain goes another way.
  await subject.mineRandomBlocks(FORK);
  await untilIndexed(database, local);
  await subject.expectSameAnswers(databaseUrl, "registry");
  const { head, answers } = await recordFork(local.url, FORK);
  const stay = () => {
    other.intercept = ({ method, params }) => {
      const key = JSON.stringify([method, params]);
      if (answers.has(key)) return { result: answers.get(key) };
      if (method === "eth_blockNumber") return { result: head.number };
      // It has no newer blocks, and no state of its fork.
      if (method === "eth_getBlockByNumber" && Number(params[0]) > Number(head.number)) return { result: null };
      return method === "eth_call" ? { error: { code: -32000, message: "header not found" } } : undefined;
    };
  };
  await chain.takeBack(FORK);
  await subject.mineRandomBlocks(FORK + 1);

  for (let round = 0; round < ROUNDS; round++) {
    one.intercept = () => undefined;
    silence(other);
    await untilIndexed(database, local);
    await subject.expectSameAnswers(databaseUrl, "registry", [1, FORK]);

    silence(one);
    stay();
    await until("the other node's chain is indexed", async () => {
      return (await readIndexedHash(database, "registry", local.chainId)) === head.hash;
    });
  }
  one.intercept = () => undefined;
  await subject.mineRandomBlocks(2);
  silence(other);
  await untilIndexed(database, local);
  await subject.expectSameAnswers(databaseUrl, "registry", [1, FORK, FORK + 3]);
  expect(indexer.output()).not.toContain("unhandled");
});
