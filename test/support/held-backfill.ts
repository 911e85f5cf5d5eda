import { FRESH_FOR_A_DAY, startApi } from "./api.ts";
import { Random } from "./random.ts";
import { startRpcProxy } from "./rpc-proxy.ts";
import { createDatabase, startIndexer } from "./setup.ts";
import { Subject } from "./subject.ts";

/** An API over an indexer that gets no logs of chain 8453 until it is released: its backfill does not end. */
export const startHeldBackfill = async () => {
  const subject = await Subject.create(8453, new Random(3));
  await subject.mineRandomBlocks(35);
  const rpc = await startRpcProxy(subject.local.url);
  let isHeld = true;
  rpc.intercept = ({ method }) => (isHeld && method === "eth_getLogs" ? { status: 503 } : undefined);
  const databaseUrl = await createDatabase();
  await startIndexer({ databaseUrl, chains: [{ chainId: 8453, url: rpc.url }] });
  const api = await startApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const release = () => {
    isHeld = false;
  };
  return { databaseUrl, api, release };
};
