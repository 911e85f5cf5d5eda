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
/** All blocks of the chains are older than the limit. */
const AN_HOUR_AGO = () => new Date(Date.now() - 3600_000);

const hang = () => sleep(60_000, undefined, { ref: false }).then(() => undefined);

test("a quiet chain answers while the indexer sees its newest block, and returns 503 while nobody looks", async () => {
  const [sanko, hychain] = [await createChain(1996, AN_HOUR_AGO()), await createChain(2911, AN_HOUR_AGO())];
  for (const { client } of [sanko, hychain]) await client.mine({ blocks: 2 });
  const proxy = await startRpcProxy(hychain.url);
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const chains = [sanko, { chainId: 2911, url: proxy.url }];
  const indexer = await startIndexer({ databaseUrl, chains });
  await waitUntilIndexed(database, sanko);
  await waitUntilIndexed(database, hychain);

  const api = await startTestApi({ databaseUrl, env: { MAX_INDEX_LAG_SECONDS: String(MAX_LAG_SECONDS) } });
  const ask = async (chainId: number) => {
    const response = await api.get(`/registry/v2/${VAULT}?chainId=${chainId}`);
    await response.text();
    return { status: response.status, block: Number(response.headers.get("X-Indexed-Block")) };
  };
  const waitForStatus = (chainId: number, status: number) =>
    waitUntil(
      `chain ${chainId} is ${status}`,
      async () => (await ask(chainId)).status,
      60,
      (now) => now === status,
    );
  /** Expects a chain to answer for longer than the limit. */
  const expectToAnswer = async (chainId: number) => {
    const until = Date.now() + (MAX_LAG_SECONDS + 5) * 1000;
    while (Date.now() < until) {
      expect(await ask(chainId)).toMatchObject({ status: 200 });
      await sleep(250);
    }
  };

  await waitForStatus(1996, 200);
  await waitForStatus(2911, 200);
  await Promise.all([expectToAnswer(1996), expectToAnswer(2911)]);

  proxy.intercept = hang;
  await Promise.all([waitForStatus(2911, 503), expectToAnswer(1996)]);
  proxy.intercept = () => undefined;
  await waitForStatus(2911, 200);

  const before = await ask(1996);
  await indexer.stop();
  await sanko.client.mine({ blocks: 1 });
  await waitForStatus(1996, 503);
  await startIndexer({ databaseUrl, chains });
  await waitForStatus(1996, 200);
  expect(await ask(1996)).toEqual({ status: 200, block: before.block + 1 });
});
