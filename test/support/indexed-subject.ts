import pg from "pg";
import { createClient, http } from "viem";
import { encodeV1 } from "../../sandbox/calls.ts";
import { launchIndexer } from "./indexer.ts";
import { Random } from "./random.ts";
import { launchRpcProxy } from "./rpc-relay.ts";
import { createDatabase, untilIndexed } from "./setup.ts";
import { Subject } from "./subject.ts";
import { type Transaction, transactionBy, type World } from "./world.ts";

/** A chain with some history, indexed to its end over an RPC that can be made to misbehave. The caller stops it. */
export const launchIndexedSubject = async (seed: number, blocks: number) => {
  const subject = await Subject.launch(8453, new Random(seed));
  await subject.mineRandomBlocks(blocks);
  const { local } = subject;
  const proxy = await launchRpcProxy(local.url);
  const databaseUrl = await createDatabase();
  const database = new pg.Client(databaseUrl);
  await database.connect();
  const indexer = await launchIndexer({ databaseUrl, chains: [{ chainId: local.chainId, url: proxy.url }] });
  await untilIndexed(database, local);
  return {
    subject,
    proxy,
    databaseUrl,
    database,
    indexer,
    stop: async () => {
      await indexer.stop();
      await database.end();
      proxy.stop();
      await local.stop();
    },
  };
};

/** A wallet that is a contract delegates twice and revokes once: whom, only the contract's state tells. */
export const revocationByContract = (world: World): Transaction => {
  const safe = world.wallets.find(({ isContract }) => isContract);
  const [friend, guest] = world.wallets.map(({ address }) => address);
  if (!safe || !friend || !guest) throw new Error("The world lacks wallets.");
  const calls = [
    encodeV1("delegateForAll", [friend, true]),
    encodeV1("delegateForAll", [guest, true]),
    encodeV1("revokeDelegate", [guest]),
  ];
  return transactionBy(
    world,
    safe,
    calls.map((data) => ({ target: world.v1, data })),
  );
};

/** The newest block, in the node's own words. */
export const requestBlock = async (url: string): Promise<object> => {
  const client = createClient({ transport: http(url) });
  const block = await client.request({ method: "eth_getBlockByNumber", params: ["latest", true] });
  if (!block) throw new Error("The chain has no block.");
  return block;
};
