import { expect, test } from "vitest";
import { createIndexedSubject, requestBlock, revocationByContract } from "../../support/indexed-subject.ts";
import { until, untilIndexed } from "../../support/setup.ts";

const SECONDS_TO_UNDO = 10;

test.for([
  ["its logs are being fetched", "eth_getLogs", 0],
  ["a revocation in it is being looked up", "eth_call", 0],
  ["a revocation in it is being looked up, with the blocks after it", "eth_call", 3],
] as const)("a block orphaned while %s is undone within 10 s", async ([, method, after]) => {
  const { subject, proxy, databaseUrl, database, indexer } = await createIndexedSubject(7, 3);
  const { chain, local, world } = subject;
  const before = await requestBlock(local.url);

  let isHeld = false;
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  // The indexer learns of all these blocks at once, and fetches them together.
  let isMined = false;
  proxy.intercept = async (request) => {
    if (!isMined && request.method === "eth_getBlockByNumber") return { result: before };
    if (request.method !== method) return undefined;
    isHeld = true;
    await released;
    return undefined;
  };

  await chain.mine([revocationByContract(world)]);
  await subject.mineRandomBlocks(after);
  isMined = true;
  await until(`${method} is under way`, async () => isHeld);

  await chain.takeBack(1 + after);
  await subject.mineRandomBlocks(2 + after);
  release();
  await untilIndexed(database, local, { seconds: SECONDS_TO_UNDO });
  await subject.expectSameAnswers(databaseUrl, "registry");
  expect(indexer.output()).not.toContain("starting it again");
});
