import { test } from "vitest";
import { encodeV1 } from "../sandbox/calls.ts";
import { Random } from "./support/random.ts";
import { startRpcProxy } from "./support/rpc-proxy.ts";
import { connect, createDatabase, startIndexer, until, untilIndexed } from "./support/setup.ts";
import { Subject } from "./support/subject.ts";
import { transactionBy } from "./support/world.ts";

const SECONDS_TO_UNDO = 10;

test.for([
  ["its logs are being fetched", "eth_getLogs"],
  ["a revocation in it is being looked up", "eth_call"],
] as const)("a block orphaned while %s is undone within 10 s", async ([, method]) => {
  const subject = await Subject.create(8453, new Random(7));
  const { chain, local, world } = subject;
  await subject.mineRandomBlocks(3);

  const proxy = await startRpcProxy(local.url);
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  await startIndexer({ databaseUrl, chains: [{ chainId: local.chainId, url: proxy.url }] });
  await untilIndexed(database, local);

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

  // By a wallet that is a contract, so that the state after the block is looked up.
  const safe = { address: world.wallets.at(-1)?.address ?? "0x", isContract: true };
  const [friend, guest] = world.wallets.map(({ address }) => address);
  const calls = [
    encodeV1("delegateForAll", [friend ?? "0x", true]),
    encodeV1("delegateForAll", [guest ?? "0x", true]),
    encodeV1("revokeDelegate", [guest ?? "0x"]),
  ].map((data) => ({ target: world.v1, data }));
  await chain.mine([transactionBy(world, safe, calls)]);
  await until(`${method} is under way`, async () => isHeld);

  await chain.takeBack(1);
  await subject.mineRandomBlocks(2);
  release();
  await untilIndexed(database, local, { seconds: SECONDS_TO_UNDO });
  await subject.expectSameAnswers(databaseUrl, "registry");
});
