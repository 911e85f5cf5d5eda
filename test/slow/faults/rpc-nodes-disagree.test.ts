import { createClient, http, numberToHex } from "viem";
import { expect, test } from "vitest";
import { readIndexedHash } from "../../support/index-state.ts";
import { createRandomChain } from "../../support/indexed-chain.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { connectClient, createDatabase, startIndexer, waitUntil, waitUntilIndexed } from "../../support/setup.ts";

// Two endpoints on different forks of the same length answer in turn. A shorter fork would not be followed while the
// other endpoint is out.

const FORK = 4;
const ROUNDS = 3;

type Proxy = Awaited<ReturnType<typeof startRpcProxy>>;

/** Records a node's answers about its newest blocks, to repeat them after the chain has replaced these blocks. */
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

test("the index follows the fork of the node that answers, is right on each, and ends on the chain's fork", async () => {
  const subject = await createRandomChain(8453, 37, 8);
  const { local, chain } = subject;
  const [one, other] = [await startRpcProxy(local.url), await startRpcProxy(local.url)];
  const silence = (proxy: Proxy) => {
    proxy.intercept = () => ({ status: 503 });
  };
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const indexer = await startIndexer({
    databaseUrl,
    chains: [{ chainId: local.chainId, url: `${one.url},${other.url}` }],
  });
  await waitUntilIndexed(database, local);

  // The other node keeps these blocks; the chain replaces them.
  await subject.mineRandomBlocks(FORK);
  await waitUntilIndexed(database, local);
  await subject.expectSameAnswers(databaseUrl, "registry");
  const { head, answers } = await recordFork(local.url, FORK);
  const keepFork = () => {
    other.intercept = ({ method, params }) => {
      const key = JSON.stringify([method, params]);
      if (answers.has(key)) return { result: answers.get(key) };
      if (method === "eth_blockNumber") return { result: head.number };
      // The other node has no newer blocks, and no state of its fork.
      if (method === "eth_getBlockByNumber" && Number(params[0]) > Number(head.number)) return { result: null };
      return method === "eth_call" ? { error: { code: -32000, message: "header not found" } } : undefined;
    };
  };
  await chain.revertBlocks(FORK);
  await subject.mineRandomBlocks(FORK);

  for (let round = 0; round < ROUNDS; round++) {
    one.intercept = () => undefined;
    silence(other);
    await waitUntilIndexed(database, local);
    await subject.expectSameAnswers(databaseUrl, "registry", [1, FORK]);

    silence(one);
    keepFork();
    const readHash = () => readIndexedHash(database, "registry", local.chainId);
    await waitUntil("the other node's fork is indexed", readHash, 60, (hash) => hash === head.hash);
  }
  one.intercept = () => undefined;
  await subject.mineRandomBlocks(2);
  silence(other);
  await waitUntilIndexed(database, local);
  await subject.expectSameAnswers(databaseUrl, "registry", [1, FORK, FORK + 3]);
  expect(indexer.output()).not.toContain("unhandled");
});
