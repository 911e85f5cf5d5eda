import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startTestApi, VAULT } from "../../support/api.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import {
  connectClient,
  createChain,
  createDatabase,
  startIndexer,
  waitUntil,
  waitUntilIndexed,
} from "../../support/setup.ts";

/** The indexer looks every 15 s at what a chain's newest block is. */
const MAX_LAG_SECONDS = 30;
const [SEEN, UNREACHABLE, STOPPED] = [1996, 2911, 59144];

test("a quiet chain answers while the indexer sees its newest block, and returns 503 while nobody looks", async () => {
  // All blocks of the chains are older than the limit.
  const startsAt = new Date(Date.now() - 3600_000);
  const chains = await Promise.all([SEEN, UNREACHABLE, STOPPED].map((chainId) => createChain(chainId, startsAt)));
  const [seen, unreachable, stopped] = chains as [(typeof chains)[0], (typeof chains)[0], (typeof chains)[0]];
  const proxy = await startRpcProxy(unreachable.url);
  const databaseUrl = await createDatabase();
  await startIndexer({ databaseUrl, chains: [seen, { chainId: UNREACHABLE, url: proxy.url }] });
  const startOther = () => startIndexer({ databaseUrl, chains: [stopped], env: { SHARD: "other" } });
  const other = await startOther();
  const database = await connectClient(databaseUrl);
  for (const chain of chains) {
    await chain.client.mine({ blocks: 2 });
    await waitUntilIndexed(database, chain, { schema: chain === stopped ? "other" : "registry" });
  }

  const api = await startTestApi({
    databaseUrl,
    env: {
      MAX_INDEX_LAG_SECONDS: String(MAX_LAG_SECONDS),
      INDEX_SCHEMAS: "registry,other",
      QUIET_CHAINS: String(STOPPED),
    },
  });
  const ask = async (chainId: number) => {
    const response = await api.get(`/registry/v2/${VAULT}?chainId=${chainId}`);
    await response.text();
    return { status: response.status, block: Number(response.headers.get("X-Indexed-Block")) };
  };
  const waitForStatus = (chainId: number, status: number) =>
    waitUntil(
      `chain ${chainId} is ${status}`,
      () => ask(chainId),
      90,
      (now) => now.status === status,
    );
  for (const { chainId } of chains) await waitForStatus(chainId, 200);

  proxy.intercept = () => sleep(60_000, undefined, { ref: false }).then(() => undefined);
  const before = await ask(STOPPED);
  await other.stop();
  await stopped.client.mine({ blocks: 1 });
  let isWatched = true;
  const watch = async () => {
    const until = Date.now() + (MAX_LAG_SECONDS + 5) * 1000;
    while (isWatched || Date.now() < until) {
      expect(await ask(SEEN)).toMatchObject({ status: 200 });
      await sleep(250);
    }
  };
  const watching = watch();
  await Promise.all([waitForStatus(UNREACHABLE, 503), waitForStatus(STOPPED, 503)]);
  isWatched = false;
  await watching;

  proxy.intercept = () => undefined;
  await startOther();
  await waitForStatus(UNREACHABLE, 200);
  expect(await waitForStatus(STOPPED, 200)).toEqual({ status: 200, block: before.block + 1 });
});
