import { FRESH_FOR_A_DAY, startTestApi } from "./api.ts";
import { ComparedChain } from "./compared-chain.ts";
import { Random } from "./random.ts";
import { startRpcProxy } from "./rpc-proxy.ts";
import { createDatabase, startIndexer } from "./setup.ts";

/** Starts an API over an indexer whose backfill of chain 8453 waits for logs until release() is called. */
export const startHeldBackfill = async () => {
  const subject = await ComparedChain.create(8453, new Random(3));
  await subject.mineRandomBlocks(35);
  const rpc = await startRpcProxy(subject.local.url);
  let isHeld = true;
  rpc.intercept = ({ method }) => (isHeld && method === "eth_getLogs" ? { status: 503 } : undefined);
  const databaseUrl = await createDatabase();
  await startIndexer({ databaseUrl, chains: [{ chainId: 8453, url: rpc.url }] });
  const api = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const release = () => {
    isHeld = false;
  };
  return { databaseUrl, api, release };
};
