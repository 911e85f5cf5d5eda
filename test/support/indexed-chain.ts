import pg from "pg";
import { createClient, http } from "viem";
import { encodeV1 } from "../../local/calls.ts";
import { ComparedChain } from "./compared-chain.ts";
import { launchHeadSocket } from "./head-socket.ts";
import { launchIndexer } from "./indexer.ts";
import { Random } from "./random.ts";
import { launchRpcProxy } from "./rpc-proxy.ts";
import { createDatabase, waitUntilIndexed } from "./setup.ts";
import { buildTransaction, type Transaction, type World } from "./world.ts";

/**
 * Launches a chain with random blocks, indexed over an RPC proxy that tests can make fail, and over a WebSocket if wanted.
 * The caller stops it.
 */
export const launchIndexedSubject = async (seed: number, blocks: number, { overWebSocket = false } = {}) => {
  const subject = await ComparedChain.launch(8453, new Random(seed));
  await subject.mineRandomBlocks(blocks);
  const { local } = subject;
  const proxy = await launchRpcProxy(local.url);
  const databaseUrl = await createDatabase();
  const database = new pg.Client(databaseUrl);
  await database.connect();
  const heads = overWebSocket ? await launchHeadSocket(local.url) : null;
  const env = heads ? { [`PONDER_WS_URL_${local.chainId}`]: heads.url } : {};
  const indexer = await launchIndexer({ databaseUrl, chains: [{ chainId: local.chainId, url: proxy.url }], env });
  await waitUntilIndexed(database, local);
  return {
    subject,
    proxy,
    databaseUrl,
    database,
    indexer,
    heads,
    stop: async () => {
      await indexer.stop();
      await database.end();
      heads?.stop();
      proxy.stop();
      await local.stop();
    },
  };
};

/** Builds two delegations and a revocation by a contract wallet. Only the registry's state shows who was revoked. */
export const buildContractRevocation = (world: World): Transaction => {
  const safe = world.wallets.find(({ isContract }) => isContract);
  const [friend, guest] = world.wallets.map(({ address }) => address);
  if (!safe || !friend || !guest) throw new Error("The world lacks wallets.");
  const calls = [
    encodeV1("delegateForAll", [friend, true]),
    encodeV1("delegateForAll", [guest, true]),
    encodeV1("revokeDelegate", [guest]),
  ];
  return buildTransaction(
    world,
    safe,
    calls.map((data) => ({ target: world.v1, data })),
  );
};

/** Reads the newest block as raw JSON-RPC. */
export const readNewestBlock = async (url: string): Promise<object> => {
  const client = createClient({ transport: http(url) });
  const block = await client.request({ method: "eth_getBlockByNumber", params: ["latest", true] });
  if (!block) throw new Error("The chain has no block.");
  return block;
};
