import { expect } from "vitest";
import type { Network } from "../../client/src/index.ts";
import { type Api, createSampleDatabase, startTestApi, VAULT } from "../support/api.ts";
import { connectClient, waitUntil } from "../support/setup.ts";
import { test } from "../support/test.ts";

const readNetworks = async (api: Api) =>
  ((await (await api.get("/networks")).json()) as { networks: Network[] }).networks;

test("/networks lists every network with a registry, its block explorer and its freshness", async ({ samples }) => {
  const networks = await readNetworks(samples);
  expect(networks.length).toBe(57);
  expect(networks.map(({ testnet }) => testnet)).toEqual(networks.map(({ testnet }) => testnet).toSorted());
  expect(networks.find(({ chainId }) => chainId === 137)).toEqual({
    chainId: 137,
    name: "Polygon",
    testnet: false,
    status: "active",
    blockExplorer: "https://polygonscan.com",
    registries: {
      v1: "0x00000000000076A84feF008CDAbe6409d2FE638B",
      v2: "0x00000000000000447e69651d841bD8D104Bed493",
    },
    state: "fresh",
    reason: null,
    indexedBlock: { number: expect.any(Number), timestamp: expect.any(Number) },
    newestBlock: { number: expect.any(Number), timestamp: expect.any(Number) },
    progress: null,
    verification: { block: expect.any(Number), wallets: expect.any(Number), at: expect.stringMatching(/^\d{4}-/) },
    proofs: { available: false, reason: expect.any(String) },
  });
  const others = networks.filter(({ chainId }) => chainId !== 1 && chainId !== 137);
  for (const other of others) {
    expect(other).toMatchObject({ state: "not-indexed", reason: null, indexedBlock: null, progress: null });
  }
});

test("/networks reports a network as behind when its newest block is too old", async ({ databaseUrl }) => {
  const strict = await startTestApi({ databaseUrl, env: { MAX_INDEX_LAG_SECONDS: "1" } });
  const isBehind = (network?: Network) => network?.state === "behind";
  const ethereum = await waitUntil("Ethereum is behind", async () => (await readNetworks(strict))[0], 60, isBehind);
  expect(ethereum?.reason).toMatch(/is indexed up to block/);
});

test("/networks reports the progress of a network that is being indexed, whose history returns 503", async () => {
  const url = await createSampleDatabase();
  const database = await connectClient(url);
  await database.query("update indexer.shard set caught_up = false");
  await database.query(
    "update indexer.chain set start_number = 1000, reached_number = 1750, newest_number = 2000 where chain_id = 1",
  );
  const started = await startTestApi({ databaseUrl: url });
  const [ethereum] = await readNetworks(started);
  expect(ethereum).toMatchObject({
    state: "indexing",
    indexedBlock: null,
    progress: { startBlock: 1000, reachedBlock: 1750, newestBlock: 2000, share: 0.75 },
  });
  const refused = await started.get(`/wallets/${VAULT}/history?chainId=1`);
  expect(refused.status).toBe(503);
  expect(((await refused.json()) as { type: string }).type).toBe("/docs#problem-not-indexed");

  // An indexer of an older version lacks this column.
  await database.query("drop schema analytics cascade");
  await database.query("alter table indexer.chain drop column start_number");
  const readStartBlock = async () => (await readNetworks(started))[0]?.progress?.startBlock;
  await waitUntil("the start block is 0", readStartBlock, 60, (block) => block === 0);
});
