import { createClient, http, numberToHex } from "viem";
import { expect, test } from "vitest";
import { readIndexedHash } from "../../support/index-state.ts";
import { Random } from "../../support/random.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { connect, createDatabase, startIndexer, until, untilIndexed } from "../../support/setup.ts";
import { Subject } from "../../support/subject.ts";

// Two endpoints whose nodes are on different forks. They take turns in answering.

const FORK = 4;
const ROUNDS = 3;

type Proxy = Awaited<ReturnType<typeof startRpcProxy>>;

/** Records a node's answers about its newest blocks, to repeat them when the chain has replaced these. */
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

test("an index that follows one node's fork, then another's, is right on each, and ends on the one that lasts", async () => {
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

  // The other node stays on these blocks; the chain replaces them.
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
    const readHash = () => readIndexedHash(database, "registry", local.chainId);
    await until("the other node's fork is indexed", readHash, 60, (hash) => hash === head.hash);
  }
  one.intercept = () => undefined;
  await subject.mineRandomBlocks(2);
  silence(other);
  await untilIndexed(database, local);
  await subject.expectSameAnswers(databaseUrl, "registry", [1, FORK, FORK + 3]);
  expect(indexer.output()).not.toContain("unhandled");
});
