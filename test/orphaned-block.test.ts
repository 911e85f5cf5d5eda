import { test } from "vitest";
import { createIndexedSubject, revocationByContract } from "./support/indexed-subject.ts";
import { until, untilIndexed } from "./support/setup.ts";

const SECONDS_TO_UNDO = 10;

test.for([
  ["its logs are being fetched", "eth_getLogs"],
  ["a revocation in it is being looked up", "eth_call"],
] as const)("a block orphaned while %s is undone within 10 s", async ([, method]) => {
  const { subject, proxy, databaseUrl, database } = await createIndexedSubject(7, 3);
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

  await chain.takeBack(1);
  await subject.mineRandomBlocks(2);
  release();
  await untilIndexed(database, local, { seconds: SECONDS_TO_UNDO });
  await subject.expectSameAnswers(databaseUrl, "registry");
});
