import { createClient, http, numberToHex } from "viem";
import { expect, test } from "vitest";
import { OtherBlockError } from "../../support/api-answers.ts";
import { readSnapshot } from "../../support/index-state.ts";
import { createIndexedSubject } from "../../support/indexed-subject.ts";
import { until, untilIndexed } from "../../support/setup.ts";

// A node, or one of several behind one URL, that is behind the others: its newest block is an older one.

/** More than Ponder takes for final on this chain. */
const DEEP = 65;

test("a head that goes back and forth, and far back, leaves the index right at the block it names", async () => {
  const { subject, proxy, databaseUrl, database, indexer } = await createIndexedSubject(41, DEEP + 5);
  const { local } = subject;
  const node = createClient({ transport: http(local.url) });
  const head = async () => Number(await local.client.getBlockNumber());
  const blockAt = (number: number) =>
    node.request({ method: "eth_getBlockByNumber", params: [numberToHex(number), true] });
  let newest: (() => Promise<number>) | null = null;
  let polls = 0;
  proxy.intercept = async ({ method, params }) => {
    if (!newest || method !== "eth_getBlockByNumber" || params[0] !== "latest") return undefined;
    polls++;
    return { result: await blockAt(await newest()) };
  };
  const polled = (times: number) => {
    const wanted = polls + times;
    return until("the node was asked for its newest block", async () => polls >= wanted);
  };
  const compare = () => subject.expectSameAnswers(databaseUrl, "registry", [1, 4]);

  // Blocks out of order: each poll is answered by another node, up to four blocks behind.
  let turn = 0;
  newest = async () => (await head()) - ([0, 3, 1, 4, 0, 2][turn++ % 6] ?? 0);
  for (let round = 0; round < 6; round++) {
    await subject.mineRandomBlocks(2);
    await polled(3);
    // It may also say that it does not know.
    await compare().catch((error) => {
      if (!(error instanceof OtherBlockError)) throw error;
    });
  }
  newest = null;
  await untilIndexed(database, local);
  await compare();

  // A node that was set up anew: behind what is final. The index stays where it is, and goes on when the node is back.
  const stayedAt = await head();
  newest = async () => stayedAt - DEEP;
  await polled(4);
  await compare();
  expect((await readSnapshot(databaseUrl, "registry", local.chainId))?.block.number).toBe(BigInt(stayedAt));
  await subject.mineRandomBlocks(3);
  newest = null;
  await untilIndexed(database, local);
  await compare();
  expect(indexer.output()).not.toContain("starting it again");
});
