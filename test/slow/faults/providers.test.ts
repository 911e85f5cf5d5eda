import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect } from "vitest";
import { createRandomChain } from "../../support/indexed-chain.ts";
import { startIndexerProcess } from "../../support/indexer.ts";
import { type Behaviour, type Bloom, dialects, simulateProvider } from "../../support/provider.ts";
import type { ComparedChain } from "../../support/random-chain.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { connectClient, createDatabase, startIndexer, waitUntil, waitUntilIndexed } from "../../support/setup.ts";
import { test as base } from "../../support/test.ts";

// A real indexer behind simulated providers.

const startProvider = async ({ local }: ComparedChain, behaviour: Behaviour) => {
  const proxy = await startRpcProxy(local.url);
  proxy.intercept = simulateProvider(local.url, behaviour);
  return proxy.url;
};

const expectIndexed = async (subject: ComparedChain, databaseUrl: string, blocksBack: number[] = []) => {
  await waitUntilIndexed(await connectClient(databaseUrl), subject.local, { seconds: 120 });
  await subject.expectSameAnswers(databaseUrl, "registry", blocksBack);
};

const test = base
  .extend("chainOptions", { seed: 73, blocks: 12, overWebSocket: true })
  /** Makes the provider of `indexed` behave in a way until the test is over. */
  .extend("behave", ({ indexed: { subject, proxy } }, { onCleanup }) => {
    const behave = (behaviour: Behaviour) => {
      proxy.intercept = simulateProvider(subject.local.url, behaviour);
    };
    onCleanup(() => behave({}));
    return behave;
  })
  .extend(
    "expectRight",
    ({ indexed: { subject, databaseUrl } }) =>
      () =>
        expectIndexed(subject, databaseUrl, [1, 4]),
  );

describe("a backfill", () => {
  const chainId = 8453;

  test("of 60 blocks ends behind a provider that allows 10 blocks, and few requests a second", async () => {
    const subject = await createRandomChain(chainId, 71, 60);
    const [rateLimit] = dialects.alchemy.rateLimits;
    let [second, count] = [0, 0];
    const refuse = () => {
      const now = Math.floor(Date.now() / 1000);
      [second, count] = [now, now === second ? count + 1 : 1];
      return count > 40 ? rateLimit : undefined;
    };
    const url = await startProvider(subject, { dialect: dialects.alchemy, interrupt: refuse });
    const databaseUrl = await createDatabase();
    await startIndexer({ databaseUrl, chains: [{ chainId, url }] });
    await expectIndexed(subject, databaseUrl);
  });

  test("does not begin while the only endpoint lacks the first logs, and begins with another endpoint", async () => {
    const subject = await createRandomChain(chainId, 72, 3);
    await subject.local.client.mine({ blocks: 1_200 });
    // Ponder cannot follow blocks that are mined at once: they have no parent hash.
    await subject.mineEmptyBlocks(70);
    await subject.mineRandomBlocks(3);
    const lacking = await startProvider(subject, { logsSince: 100 });
    const databaseUrl = await createDatabase();

    const refused = await startIndexerProcess({ databaseUrl, chains: [{ chainId, url: lacking }] });
    expect(await refused.exited).toMatchObject({ code: 1 });
    expect(refused.output()).toMatch(/Base: PONDER_RPC_URL_8453 .* lacks history: it returns no logs of block \d+/);

    const url = `${lacking},${subject.local.url}`;
    const indexer = await startIndexer({ databaseUrl, chains: [{ chainId, url }] });
    await expectIndexed(subject, databaseUrl);
    expect(indexer.output()).toContain("It is used for new blocks only.");
  });
});

describe("live, over a WebSocket", () => {
  test("bloom filters without the registries' bits delay a log, and lose none", async ({
    indexed: { subject, database, databaseUrl, indexer },
    behave,
    expectRight,
  }) => {
    behave({ bloom: "missing bits" });
    await subject.mineRandomBlocks(4);
    await waitUntilIndexed(database, subject.local);
    // The logs of all blocks are requested every 12 blocks, except those of the newest ones.
    await subject.mineEmptyBlocks(16);
    const findDifferences = async () => {
      await subject.mineEmptyBlocks(1);
      await sleep(1_000);
      return subject.compareIndex(databaseUrl, "registry", { questions: [] }).catch(String);
    };
    await waitUntil("the missed logs are indexed", findDifferences, 120, (found) => found.length === 0);
    expect(indexer.output()).toContain("starting it again");
    // From now on Ponder requests the logs of every block.
    await subject.mineRandomBlocks(2);
    await expectRight();
  });

  test.for<[Bloom, boolean]>([
    ["zeros", false],
    ["ones", false],
    ["extra bits", false],
    ["ones", true],
    ["zeros", true],
  ])(
    "bloom filters with %s lose no log and do not restart Ponder (no receipts: %s)",
    async ([bloom, lacksReceipts], { indexed: { subject, indexer }, behave, expectRight }) => {
      behave({ bloom, lacksReceipts });
      const printed = indexer.output().length;
      await subject.mineRandomBlocks(4);
      await subject.mineEmptyBlocks(2);
      await expectRight();
      expect(indexer.output().slice(printed)).not.toContain("starting it again");
    },
  );

  test("a node one block behind the others reverts no block", async ({
    indexed: { subject, indexer },
    behave,
    expectRight,
  }) => {
    let polls = 0;
    behave({ countBehind: () => ++polls % 2 });
    const printed = indexer.output().length;
    for (let round = 0; round < 6; round++) {
      const before = polls;
      await subject.mineRandomBlocks(1);
      await waitUntil("a node with the block has answered, and one without it", () => polls >= before + 2);
    }
    behave({});
    await expectRight();
    expect(indexer.output().slice(printed)).not.toMatch(/reorg/i);
  });

  test("responses whose body stalls delay the index, and it recovers", async ({
    indexed: { subject, database },
    behave,
    expectRight,
  }) => {
    let count = 0;
    let stalled = 0;
    behave({
      interrupt: () => {
        if (++count % 5 !== 0) return undefined;
        stalled++;
        return { stalls: true };
      },
    });
    await subject.mineRandomBlocks(3);
    await waitUntil("responses stall", () => stalled > 1);
    behave({});
    // Ponder fetches a block that failed with the next one. A stalled response counts as a failure after 30 s.
    const recover = async () => {
      await subject.mineEmptyBlocks(1);
      return waitUntilIndexed(database, subject.local, { seconds: 5 }).then(
        () => true,
        () => false,
      );
    };
    await waitUntil("the index recovers", recover, 120);
    await expectRight();
  });

  test("a WebSocket that announces nothing delays the index, and a reorg is reverted", async ({
    indexed: { subject, heads },
    expectRight,
  }) => {
    if (heads) heads.isSilent = true;
    await subject.mineRandomBlocks(3);
    await expectRight();
    await subject.chain.revertBlocks(2);
    await subject.mineRandomBlocks(3);
    await expectRight();
    if (heads) heads.isSilent = false;
  });

  test("a provider that refuses the logs of a whole block is asked by address", async ({
    indexed: { subject },
    behave,
    expectRight,
  }) => {
    let refused = 0;
    behave({
      interrupt: ({ method, params }) => {
        const { address, blockHash } = (params?.[0] ?? {}) as { address?: unknown; blockHash?: unknown };
        if (method !== "eth_getLogs" || blockHash === undefined || address !== undefined) return undefined;
        refused++;
        return dialects.reth.size.refuse();
      },
    });
    await subject.mineRandomBlocks(3);
    await expectRight();
    expect(refused).toBeGreaterThan(0);
  });
});
