import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { createRandomChain } from "../../support/indexed-chain.ts";
import { startIndexer } from "../../support/indexer.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { connectClient, createDatabase, waitUntilIndexed } from "../../support/setup.ts";
import { test } from "../../support/test.ts";

const chainId = 8453;
const LATENCY_MS = 800;

test("an index waits less than 45 s for a provider that takes 800 ms per request", async () => {
  const subject = await createRandomChain(chainId, 94, 60);
  await subject.mineUpTo(500n);
  const databaseUrl = await createDatabase();
  const proxy = await startRpcProxy(subject.local.url);
  // The requests that the index waits for: not the newest block, which is polled.
  const needed: number[] = [];
  proxy.intercept = async ({ params = [] }) => {
    if (params[0] !== "latest") needed.push(performance.now());
    await sleep(LATENCY_MS);
    return undefined;
  };
  await startIndexer({ databaseUrl, chains: [{ chainId, url: proxy.url }] });
  await waitUntilIndexed(await connectClient(databaseUrl), subject.local, { seconds: 150 });

  let waited = 0;
  let lastEnd = 0;
  for (const sentAt of needed) {
    const end = sentAt + LATENCY_MS;
    waited += end - Math.max(sentAt, lastEnd);
    lastEnd = end;
  }
  expect(waited).toBeLessThan(45_000);
});
