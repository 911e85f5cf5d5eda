import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { InsightsCache } from "../../api/insights/insights-cache.ts";
import type { InsightRows } from "../../api/insights/read-insights.ts";
import { Problem } from "../../api/problem.ts";
import type { components } from "../../client/src/openapi.ts";
import { IndexerDatabase } from "../../indexer/shards/index-database.ts";
import { summarise } from "../../indexer/shards/summarise.ts";
import { createSampleDatabase, FRESH_FOR_A_DAY, NFT, startTestApi } from "../support/api.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { expectCorrectSums } from "../support/index-state.ts";
import { connectClient, createDatabase, waitUntil } from "../support/setup.ts";

// Over the sandbox's samples: local/samples.ts and local/sample-history.ts have their changes.

type WalletChange = components["schemas"]["WalletChange"];
type NewestChange = Omit<WalletChange, "direction"> & { network: string };

type Data = {
  readAt: number;
  totals: Record<"made" | "changed" | "revoked" | "active", number>;
  networks: { chainId: number; name: string; active: number }[];
  days: { start: string; chainId: number; type: string; made: number }[];
  weeks: { start: string; made: number }[];
  contracts: { contract: string; chainId: number; network: string; delegations: number; made: number }[];
  newest: NewestChange[];
};

/** Sets up the samples, with functions to finalize blocks and to summarise them. */
const setUp = async () => {
  const databaseUrl = await createSampleDatabase();
  const client = await connectClient(databaseUrl);
  const schema = await readServedSchema(client);
  const indexer = await IndexerDatabase.connect(databaseUrl);
  onTestFinished(() => indexer.close());
  /** Finalizes blocks up to this one. */
  const finalize = (block: number) =>
    client.query(
      `update ${schema}._ponder_checkpoint
       set finalized_checkpoint = overlay(finalized_checkpoint placing lpad($1::text, 16, '0') from 27 for 16)`,
      [block],
    );
  return { databaseUrl, client, schema, finalize, summarise: () => summarise(indexer.connection, schema) };
};

test("summarise(): sums and the rest of the log give the same as the whole log, however much is final", async () => {
  const { client, finalize, summarise } = await setUp();
  await expectCorrectSums(client);
  for (const block of [0, 5, 6, 15, 1000]) {
    await finalize(block);
    expect(await summarise()).toBe(true);
    await expectCorrectSums(client);
    const { rows } = await client.query("select min(summed_block)::int as summed from analytics.chains");
    expect(rows[0].summed).toBeGreaterThanOrEqual(Math.min(block, 20));
  }
  // Incomplete summaries are ignored: readers use the log alone.
  await client.query("update indexer.summary set complete = false, block = block - 5");
  await expectCorrectSums(client);
  await client.query("update indexer.summary set complete = true, block = block + 5");
  // A run without new blocks counts nothing twice.
  expect(await summarise()).toBe(true);
  await expectCorrectSums(client);
  // Deleting the index deletes its summaries.
  await client.query("delete from indexer.shard; delete from indexer.index");
  const { rows } = await client.query("select 1 from indexer.summary, indexer.daily_summary, indexer.contract_summary");
  expect(rows).toEqual([]);
});

test("/insights/data returns totals by day, network and type, the top contracts, and an ETag", async () => {
  const { databaseUrl, finalize, summarise } = await setUp();
  await finalize(10);
  await summarise();
  const api = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const response = await api.get("/insights/data");
  const data = (await response.json()) as Data;
  expect(response.status, JSON.stringify(data)).toBe(200);
  expect(data.totals).toEqual({ made: 123, changed: 10, revoked: 34, active: 89 });
  expect(data.networks).toMatchObject([
    { chainId: 1, name: "Ethereum", made: 61, active: 44 },
    { chainId: 137, name: "Polygon", made: 62, active: 45 },
  ]);
  const made = (rows: readonly { made: number }[]) => rows.reduce((sum, row) => sum + row.made, 0);
  expect([made(data.days), made(data.weeks)]).toEqual([123, 123]);
  expect(new Set(data.days.map(({ type }) => type))).toEqual(
    new Set(["ALL", "CONTRACT", "TOKEN", "ERC721", "ERC20", "ERC1155"]),
  );
  for (const { start } of data.weeks) expect(new Date(start).getUTCDay()).toBe(1);
  expect(data.contracts[0]).toMatchObject({ contract: NFT, chainId: 1, network: "Ethereum", delegations: 12 });
  expect(data.contracts.length).toBe(8);
  expect(response.headers.get("Cache-Control")).toMatch(/^public, max-age=\d+/);

  const etag = response.headers.get("ETag") ?? "";
  const same = await api.get("/insights/data", { headers: { "If-None-Match": `"other", W/${etag}` } });
  expect([same.status, await same.text(), same.headers.get("ETag")]).toEqual([304, "", etag]);
  expect(Number(same.headers.get("Age"))).toBeGreaterThanOrEqual(0);
  expect((await api.get("/insights/data", { headers: { "If-None-Match": '"other"' } })).status).toBe(200);
});

/** Reads the places of the newest changes from the log of both networks. */
const readNewestPlaces = async (client: pg.Client) => {
  const { rows } = await client.query(
    `select chain_id::int as "chainId", block_number::int as "blockNumber", log_index as "logIndex", ordinal
     from registry.delegation_change
     order by block_timestamp desc, chain_id, block_number desc, log_index desc, ordinal desc limit 10`,
  );
  return rows;
};

const placeOf = ({ chainId, blockNumber, logIndex, ordinal }: NewestChange) => ({
  chainId,
  blockNumber,
  logIndex,
  ordinal,
});

test("/insights/data has the ten newest changes of all networks and registries, as a wallet's history shows them", async () => {
  const { databaseUrl, client, summarise } = await setUp();
  await summarise();
  const api = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const { newest } = (await (await api.get("/insights/data")).json()) as Data;
  expect(newest.map(placeOf)).toEqual(await readNewestPlaces(client));
  expect(newest.length).toBe(10);
  for (const { network, ...change } of newest) {
    expect(network).toBe(change.chainId === 1 ? "Ethereum" : "Polygon");
    const history = await api.get(`/wallets/${change.vault}/history`);
    const { changes } = (await history.json()) as { changes: WalletChange[] };
    expect(changes).toContainEqual({ ...change, direction: "outgoing" });
  }
  const shown = newest.flatMap(({ chainId, registry, kind }) => [chainId, registry, kind]);
  expect(shown).toEqual(expect.arrayContaining([1, 137, "v1", "v2", "made", "revoked"]));

  const alone = await api.get("/insights/newest");
  expect(await alone.json()).toEqual({ newest });
  const headers = { "If-None-Match": alone.headers.get("ETag") ?? "" };
  expect((await api.get("/insights/newest", { headers })).status).toBe(304);
  expect((await api.get("/insights/data", { headers })).status).toBe(200);
});

test("the newest changes follow the log after a reorg, and leave out networks that are not counted", async () => {
  const { databaseUrl, client, schema, summarise } = await setUp();
  await summarise();
  const readNewest = async () => {
    const api = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
    return (await (await api.get("/insights/data")).json()) as Data;
  };
  const [first] = (await readNewest()).newest;
  await client.query("set session_replication_role = replica");
  await client.query(`delete from ${schema}.delegation_change where transaction_hash = $1`, [first?.transactionHash]);
  const { newest } = await readNewest();
  expect(newest.map(placeOf)).toEqual(await readNewestPlaces(client));
  expect(newest).not.toContainEqual(first);

  await client.query("update indexer.summary set complete = false where chain_id = 137");
  const counted = await readNewest();
  expect(counted.networks.map(({ chainId }) => chainId)).toEqual([1]);
  expect(counted.newest.map(({ chainId }) => chainId)).toEqual(Array(10).fill(1));
  await client.query("update indexer.summary set complete = false");
  expect(await readNewest()).toMatchObject({ networks: [], newest: [] });
});

test("/insights/data reads the database once for 200 concurrent requests, without a rate limit", async () => {
  const { databaseUrl, client, summarise } = await setUp();
  await summarise();
  /** Counts the scans of the summaries. Postgres updates this when a connection ends. */
  const scans = async (): Promise<number> => {
    const readConnections = async () => {
      const text = "select query from pg_stat_activity where datname = current_database() and application_name = 'api'";
      return (await client.query(text)).rows;
    };
    await waitUntil("the API has closed its connections", readConnections, 60, ({ length }) => length === 0);
    const { rows } = await client.query(
      `select sum(coalesce(seq_scan, 0) + coalesce(idx_scan, 0))::int as scans from pg_stat_user_tables
       where relname in ('daily_summary', 'contract_summary')`,
    );
    return rows[0].scans;
  };
  const costOf = async (requests: number) => {
    const before = await scans();
    const api = await startTestApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, RATE_LIMIT_REQUESTS: "1" } });
    const responses = await Promise.all(Array.from({ length: requests }, () => api.get("/insights/data")));
    for (const response of responses) expect(response.status, await response.text()).toBe(200);
    await api.stop();
    return (await scans()) - before;
  };
  const ofOne = await costOf(1);
  expect(ofOne).toBeGreaterThan(0);
  expect(await costOf(200)).toBe(ofOne);
});

test("/insights/data returns 503 before anything is indexed", async () => {
  const api = await startTestApi({ databaseUrl: await createDatabase() });
  const response = await api.get("/insights/data");
  expect(response.status).toBe(503);
  expect(response.headers.get("Content-Type")).toBe("application/problem+json");
  expect(Number(response.headers.get("Retry-After"))).toBeGreaterThan(0);
});

test("InsightsCache gives the last reading while it reads again, once a minute, and keeps it if that fails", async () => {
  let now = 1_000_000;
  const readings: { resolve: (rows: InsightRows) => void; reject: (error: Error) => void }[] = [];
  const errors: unknown[] = [];
  const read = () => new Promise<InsightRows>((resolve, reject) => readings.push({ resolve, reject }));
  const insights = new InsightsCache(
    read,
    (error) => errors.push(error),
    () => now,
  );
  const rows: InsightRows = { days: [], weeks: [], contracts: [], summedChains: [], newestChanges: [] };
  const settle = () => new Promise((resolve) => setImmediate(resolve));

  // Requests before the first reading share it.
  const crowd = Array.from({ length: 200 }, () => insights.find());
  expect(readings.length).toBe(1);
  readings[0]?.resolve(rows);
  const [first] = await Promise.all(crowd);
  expect(new Set(await Promise.all(crowd)).size).toBe(1);

  now += 59_000;
  expect(await insights.find()).toBe(first);
  expect(readings.length).toBe(1);
  // After a minute it is read again, once, in the background.
  now += 2_000;
  expect(new Set(await Promise.all(Array.from({ length: 200 }, () => insights.find())))).toEqual(new Set([first]));
  expect(readings.length).toBe(2);
  readings[1]?.reject(new Error("It broke."));
  await settle();
  expect(errors.length).toBe(1);
  expect(await insights.find()).toBe(first);
  expect(readings.length, "not again at once").toBe(2);
  now += 11_000;
  await insights.find();
  readings[2]?.resolve({ ...rows, summedChains: [1] });
  await waitUntil("the new reading is shown", async () =>
    String((await insights.find()).data.content).includes("Ethereum"),
  );
});

test("InsightsCache throws a problem when its first reading fails", async () => {
  const insights = new InsightsCache(
    () => Promise.reject(new pg.DatabaseError("no", 0, "error")),
    () => {},
  );
  await expect(insights.find()).rejects.toMatchObject({ problem: "overloaded" });
  await expect(insights.find()).rejects.toBeInstanceOf(Problem);
});
