import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ComparedChain } from "../../support/compared-chain.ts";
import { launchIndexedSubject } from "../../support/indexed-chain.ts";
import { startIndexerProcess } from "../../support/indexer.ts";
import { type Behaviour, type Bloom, dialects, simulateProvider } from "../../support/provider.ts";
import { Random } from "../../support/random.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { connectClient, createDatabase, startIndexer, waitUntil, waitUntilIndexed } from "../../support/setup.ts";

// A real indexer behind simulated providers.

describe("a backfill", () => {
  test("of 150 blocks ends behind a provider that allows 10 blocks, and few requests a second", async () => {
    const subject = await ComparedChain.create(8453, new Random(71));
    await subject.mineRandomBlocks(150);
    const proxy = await startRpcProxy(subject.local.url);
    const { rateLimits } = dialects.alchemy;
    let [second, count] = [0, 0];
    proxy.intercept = simulateProvider(subject.local.url, {
      dialect: dialects.alchemy,
      interrupt: () => {
        const now = Math.floor(Date.now() / 1000);
        [second, count] = [now, now === second ? count + 1 : 1];
        return count > 40 ? rateLimits[0] : undefined;
      },
    });
    const databaseUrl = await createDatabase();
    const database = await connectClient(databaseUrl);
    await startIndexer({ databaseUrl, chains: [{ chainId: 8453, url: proxy.url }] });
    await waitUntilIndexed(database, subject.local, { seconds: 120 });
    await subject.expectSameAnswers(databaseUrl, "registry");
  });

  test("does not begin while the only endpoint lacks the first logs, and begins with another endpoint", async () => {
    const subject = await ComparedChain.create(8453, new Random(72));
    await subject.mineRandomBlocks(3);
    await subject.local.client.mine({ blocks: 1_200 });
    // Ponder cannot follow blocks that are mined at once: they have no parent hash.
    await subject.mineEmptyBlocks(70);
    await subject.mineRandomBlocks(3);
    const proxy = await startRpcProxy(subject.local.url);
    proxy.intercept = simulateProvider(subject.local.url, { logsSince: 100 });
    const databaseUrl = await createDatabase();
    const database = await connectClient(databaseUrl);

    const refused = await startIndexerProcess({ databaseUrl, chains: [{ chainId: 8453, url: proxy.url }] });
    expect(await refused.exited).toMatchObject({ code: 1 });
    expect(refused.output()).toMatch(/Base: PONDER_RPC_URL_8453 .* lacks history: it returns no logs of block \d+/);

    const url = `${proxy.url},${subject.local.url}`;
    const indexer = await startIndexer({ databaseUrl, chains: [{ chainId: 8453, url }] });
    await waitUntilIndexed(database, subject.local, { seconds: 120 });
    await subject.expectSameAnswers(databaseUrl, "registry");
    expect(indexer.output()).toContain("It is used for new blocks only.");
  });
});

describe("live, over a WebSocket", () => {
  const behaviour: Behaviour = {};
  let indexed: Awaited<ReturnType<typeof launchIndexedSubject>>;
  beforeAll(async () => {
    indexed = await launchIndexedSubject(73, 12, { overWebSocket: true });
    indexed.proxy.intercept = simulateProvider(indexed.subject.local.url, behaviour);
  });
  afterAll(() => indexed?.stop());

  const resetBehaviour = (next: Behaviour) => {
    for (const key of Object.keys(behaviour) as (keyof Behaviour)[]) delete behaviour[key];
    Object.assign(behaviour, next);
  };
  const expectIndexed = async (seconds: number) => {
    const { subject, database, databaseUrl } = indexed;
    await waitUntilIndexed(database, subject.local, { seconds });
    await subject.expectSameAnswers(databaseUrl, "registry", [1, 4]);
  };

  test("bloom filters without the registries' bits delay a log, and lose none", async () => {
    resetBehaviour({ bloom: "missing bits" });
    const { subject } = indexed;
    await subject.mineRandomBlocks(4);
    const isRight = async () => {
      await subject.mineEmptyBlocks(1);
      return expectIndexed(5).then(
        () => true,
        () => false,
      );
    };
    await waitUntil("the missed logs are indexed", isRight, 120);
    // From now on Ponder requests the logs of every block.
    await subject.mineRandomBlocks(2);
    await expectIndexed(60);
  });

  test.for<[Bloom, boolean]>([
    ["zeros", false],
    ["ones", false],
    ["extra bits", false],
    ["ones", true],
    ["zeros", true],
  ])(
    "bloom filters with %s lose no log and do not delay the index (no receipts: %s)",
    async ([bloom, lacksReceipts]) => {
      resetBehaviour({ bloom, lacksReceipts });
      await indexed.subject.mineRandomBlocks(4);
      await indexed.subject.mineEmptyBlocks(2);
      await expectIndexed(30);
    },
  );

  test("a node one block behind the others reverts no block", async () => {
    let polls = 0;
    resetBehaviour({ countBehind: () => ++polls % 2 });
    const { subject, indexer } = indexed;
    const printed = indexer.output().length;
    for (let round = 0; round < 6; round++) {
      await subject.mineRandomBlocks(1);
      await sleep(600);
    }
    resetBehaviour({});
    await expectIndexed(30);
    expect(indexer.output().slice(printed)).not.toMatch(/reorg/i);
  });

  test("responses whose body stalls delay the index, and it recovers", async () => {
    let count = 0;
    resetBehaviour({ interrupt: () => (++count % 5 === 0 ? { stalls: true } : undefined) });
    await indexed.subject.mineRandomBlocks(3);
    await sleep(2_000);
    resetBehaviour({});
    await sleep(35_000);
    // Ponder fetches a block that failed with the next one.
    await indexed.subject.mineEmptyBlocks(1);
    await expectIndexed(60);
  });

  test("a WebSocket that announces nothing delays the index, and a reorg is reverted", async () => {
    resetBehaviour({});
    const { subject, heads } = indexed;
    if (heads) heads.isSilent = true;
    await subject.mineRandomBlocks(3);
    await expectIndexed(30);
    await subject.chain.revertBlocks(2);
    await subject.mineRandomBlocks(3);
    await expectIndexed(30);
    if (heads) heads.isSilent = false;
  });

  test("a provider that refuses the logs of a whole block is asked by address", async () => {
    resetBehaviour({ dialect: { ...dialects.reth, results: { ...dialects.reth.results, logs: 0 } } });
    behaviour.interrupt = ({ method, params }) => {
      const { address, blockHash } = (params?.[0] ?? {}) as { address?: unknown; blockHash?: unknown };
      const isWhole = method === "eth_getLogs" && blockHash !== undefined && address === undefined;
      return isWhole ? dialects.reth.size.refuse() : undefined;
    };
    behaviour.maxLogs = 10_000;
    await indexed.subject.mineRandomBlocks(3);
    await expectIndexed(30);
  });
});
