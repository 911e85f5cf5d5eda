import type { Hash } from "viem";
import { expect, test } from "vitest";
import { createIndexedSubject, revocationByContract } from "./support/indexed-subject.ts";
import { until, untilIndexed } from "./support/setup.ts";

const SECONDS_TO_UNDO = 10;

test.for([
  ["its logs are being fetched", "eth_getLogs", 0],
  ["a revocation in it is being looked up", "eth_call", 0],
  ["a revocation in it is being looked up, with the blocks after it", "eth_call", 3],
] as const)("a block orphaned while %s is undone within 10 s", async ([, method, after]) => {
  const { subject, proxy, databaseUrl, database, indexer } = await createIndexedSubject(7, 3);
  const { chain, local, world } = subject;

  let isHeld = false;
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  proxy.intercept = async (request) => {
    if (request.method !== method) return undefined;
    isHeld = true;
    await released;
    return undefined;
  };

  await chain.mine([revocationByContract(world)]);
  await until(`${method} is under way`, async () => isHeld);

  await subject.mineRandomBlocks(after);
  const { hash: head } = await local.client.getBlock();
  const isFetched = async () =>
    proxy.seen.some(({ method, params }) => method === "eth_getLogs" && isFor(params, head));
  if (after > 0) await until("the blocks after it are fetched", isFetched);

  await chain.takeBack(1 + after);
  await subject.mineRandomBlocks(2 + after);
  release();
  await untilIndexed(database, local, { seconds: SECONDS_TO_UNDO });
  await subject.expectSameAnswers(databaseUrl, "registry");
  expect(indexer.output()).not.toContain("starting it again");
});

const isFor = ([filter]: unknown[], blockHash: Hash) => JSON.stringify(filter).includes(blockHash);
