import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { zeroHash } from "viem";
import { expect, onTestFinished, test } from "vitest";
import { type Api, CHECK, createSampleDatabase, FRESH_FOR_A_DAY, startTestApi, VAULT } from "../support/api.ts";
import { readServedSchema, takeCopy } from "../support/index-copy.ts";
import { parseMetrics, readValue } from "../support/metrics.ts";
import { connectClient, createDatabase, waitUntil } from "../support/setup.ts";

// "Not known" is a 503, never `false` or `[]`.

const check = (chainId: number) => `${CHECK}&chainId=${chainId}`;
const list = (chainId: number, version = "v1") => `/registry/${version}/${VAULT}?chainId=${chainId}`;

const expectRefusal = async (api: Api, paths: string | string[], problem: string, detail: RegExp) => {
  for (const path of [paths].flat()) {
    const response = await api.get(path);
    const body = await response.text();
    expect(response.status, body).toBe(503);
    expect(response.headers.get("Content-Type")).toBe("application/problem+json");
    expect(Number(response.headers.get("Retry-After"))).toBeGreaterThan(0);
    expect(JSON.parse(body)).toMatchObject({ type: `/docs#problem-${problem}`, status: 503 });
    expect(JSON.parse(body).detail).toMatch(detail);
  }
};

const expectAnswered = async (api: Api, ...chainIds: number[]) => {
  for (const path of chainIds.flatMap((chainId) => [check(chainId), list(chainId)])) {
    const response = await api.get(path);
    expect(response.status, await response.text()).toBe(200);
  }
};

/** Sets up the samples, and a connection that writes to their tables without Ponder's triggers. */
const setUp = async () => {
  const databaseUrl = await createSampleDatabase();
  const database = await connectClient(databaseUrl);
  await database.query("set session_replication_role = replica");
  const schema = await readServedSchema(database);
  const start = (env: NodeJS.ProcessEnv = FRESH_FOR_A_DAY) => startTestApi({ databaseUrl, env });
  const setAge = (seconds: number, chainId: number) =>
    database.query(
      `update ${schema}.indexed_block set timestamp = extract(epoch from now())::bigint - $1 where chain_id = $2`,
      [seconds, chainId],
    );
  return { databaseUrl, database, schema, start, setAge };
};

/** Creates a shard with the views of the first, two hours older, for some chains. */
const copyShard = async ({ database, schema }: Awaited<ReturnType<typeof setUp>>, name: string, chainIds: number[]) => {
  const index = `${name}_0123456789`;
  await database.query(`
    create schema ${name};
    create view ${name}.delegation_v1 as select * from ${schema}.delegation_v1;
    create view ${name}.delegation_v2 as select * from ${schema}.delegation_v2;
    create view ${name}.indexed_block as
      select chain_id, number, hash, timestamp - 7200 as timestamp, 0::bigint as finalized_number from ${schema}.indexed_block;
    insert into indexer.index values ('${index}', '${name}', now());
    insert into indexer.shard values ('${name}', '${index}', true, now());
    insert into indexer.chain (schema, chain_id, newest_number, newest_timestamp, reached_number, v1, v2, seen_at)
      select '${index}', id, newest_number, newest_timestamp, reached_number, v1, v2, now()
      from indexer.chain, unnest(array[${chainIds}]) id where chain.chain_id = 1`);
};

test("a network returns 503 while nothing is indexed, and 400 if it has no registry", async () => {
  const api = await startTestApi({ databaseUrl: await createDatabase() });
  await expectRefusal(api, [check(1), list(1), list(1, "v2")], "not-indexed", /shard "registry" has not started/);
  await expectRefusal(api, "/ready", "not-indexed", /Shard "registry" has not started/);
  expect((await api.get(check(4))).status).toBe(400);
  expect((await api.get("/health")).status).toBe(200);
});

test("a network returns 503 with the progress while the first index is built, then answers", async () => {
  const { databaseUrl, database, schema, start } = await setUp();
  const { indexer, serve } = await takeCopy(databaseUrl, database, "registry", schema);
  onTestFinished(() => indexer.close());
  await database.query("drop schema registry cascade; delete from indexer.shard");
  await database.query("update indexer.chain set reached_number = 12, newest_number = 34");
  const api = await start();
  await expectRefusal(api, [check(1), list(137)], "not-indexed", /\) is still being indexed: .* block 12 of 34/);
  await expectRefusal(api, "/ready", "not-indexed", /still being indexed/);
  expect((await api.get(check(10))).status).toBe(400);

  expect(await serve()).toBe(true);
  await waitUntil(
    "it is ready",
    async () => (await api.get("/ready")).status,
    60,
    (status) => status === 200,
  );
  await expectAnswered(api, 1, 137);
});

test("a network returns 503 while its index catches up after a restart, or has an unresolved block", async () => {
  const { database, schema, start } = await setUp();
  const api = await start();
  await expectAnswered(api, 1);

  await database.query("update indexer.shard set caught_up = false");
  await expectRefusal(
    api,
    [1, 137].flatMap((id) => [check(id), list(id)]),
    "not-indexed",
    /still being indexed/,
  );
  await database.query("update indexer.shard set caught_up = true");
  await expectAnswered(api, 1, 137);

  await database.query(`update ${schema}.indexed_block set hash = '${zeroHash}' where chain_id = 1`);
  await expectRefusal(api, [check(1), list(1)], "not-indexed", /still being indexed/);
  await expectAnswered(api, 137);
});

test("a network returns 503 with the age of its index while that is too old; others answer", async () => {
  const { start, setAge } = await setUp();
  await setAge(700, 1);
  await setAge(500, 137);
  const api = await start({});
  const tooOld = /Ethereum\) is indexed up to block \d+, which is (699|7\d\d) s old; the limit is 600/;
  await expectRefusal(api, [check(1), list(1)], "stale-index", tooOld);
  await expectRefusal(api, "/ready", "not-indexed", /Ethereum/);
  await expectAnswered(api, 137);
  await setAge(0, 1);
  await expectAnswered(api, 1);
});

test("networks of a missing shard return 503, and metrics show it; others answer", async () => {
  const { database, start } = await setUp();
  const api = await start({ ...FRESH_FOR_A_DAY, INDEX_SCHEMAS: "registry, base_shard" });
  await expectAnswered(api, 1, 137);
  // The missing shard may have this chain.
  await expectRefusal(api, [check(8453), "/ready"], "not-indexed", /"base_shard" has not started/);
  const samples = parseMetrics(await api.metrics());
  for (const name of ["shard_started", "shard_served"]) {
    expect([
      readValue(samples, name, { shard: "registry" }),
      readValue(samples, name, { shard: "base_shard" }),
    ]).toEqual([1, 0]);
  }

  await database.query("drop schema registry cascade");
  await expectRefusal(api, check(1), "not-indexed", /is not indexed yet|still being indexed/);
});

test("networks of an unreadable shard fail; others answer", async () => {
  const samples = await setUp();
  await copyShard(samples, "ill", [10]);
  await samples.database.query("drop view ill.indexed_block; create view ill.indexed_block as select 1 as nonsense");
  const api = await samples.start({ ...FRESH_FOR_A_DAY, INDEX_SCHEMAS: "ill,registry" });
  await expectAnswered(api, 1, 137);
  expect((await api.get(check(10))).status).toBeGreaterThanOrEqual(500);
});

test("a network in two shards is answered from the fresher one", async () => {
  const samples = await setUp();
  // The shard that is listed first is stale.
  await copyShard(samples, "left_behind", [1, 137]);
  const api = await samples.start({ MAX_INDEX_LAG_SECONDS: "3600", INDEX_SCHEMAS: "left_behind,registry" });
  await expectAnswered(api, 1, 137);
  const { chains } = (await (await api.get("/status")).json()) as { chains: { shard: string }[] };
  expect(chains.map(({ shard }) => shard)).toEqual(["registry", "registry"]);
});

test("a registry that the served index lacks returns 503, not false", async () => {
  const { database, start } = await setUp();
  await database.query("update indexer.chain set v1 = null where chain_id = 1");
  const api = await start();
  await expectRefusal(api, list(1), "not-indexed", /v1 registry on Ethereum is not in the served index/);
  expect((await api.get(check(1))).status).toBe(200);
  await expectAnswered(api, 137);
});

/** Measures the slowest of many small statements, until it is read: how long the machine itself takes. */
const watchLatency = (database: pg.Client) => {
  let [slowest, isOver] = [0, false];
  const watching = (async () => {
    while (!isOver) {
      const startedAt = performance.now();
      await database.query("select 1");
      slowest = Math.max(slowest, performance.now() - startedAt);
      await sleep(10);
    }
  })();
  return async () => {
    isOver = true;
    await watching;
    return slowest;
  };
};

test("a slow statement returns 503 within its timeout, and the service keeps answering", async () => {
  const { databaseUrl, database, schema, start } = await setUp();
  const api = await start();
  await expectAnswered(api, 1);
  const locker = await connectClient(databaseUrl);
  await locker.query(`begin; lock table ${schema}.delegation_v2 in access exclusive mode`);

  const stopWatching = watchLatency(await connectClient(databaseUrl));
  const startedAt = performance.now();
  const responses = await Promise.all(Array.from({ length: 50 }, () => api.get(check(1))));
  const elapsed = performance.now() - startedAt;
  const readStatus = async (path: string) => (await api.get(path)).status;
  await waitUntil(
    "other tables are answered",
    () => readStatus(list(1)),
    10,
    (status) => status === 200,
  );
  const latency = await stopWatching();
  for (const response of responses) {
    expect(response.status).toBe(503);
    expect(Number(response.headers.get("Retry-After"))).toBeGreaterThan(0);
  }
  // Two rounds at most: the first requests were in flight when the others arrived.
  expect(elapsed).toBeLessThan(4_500 + 10 * latency);
  // A Postgres that gets no CPU is lost, which another test covers. One that is only locked is not.
  if (latency < 200) {
    for (const response of responses) {
      const { type, detail } = (await response.json()) as { type: string; detail: string };
      expect(type).toBe("/docs#problem-overloaded");
      expect(detail).toMatch(/took too long|being looked up/);
    }
    expect(api.output()).not.toContain("out of reach");
  }
  const readActive = async () => {
    const { rows } = await database.query(
      "select 1 from pg_stat_activity where application_name = 'api' and datname = current_database() and state = 'active'",
    );
    return rows;
  };
  await waitUntil("no statement is left in Postgres", readActive, 10, ({ length }) => length === 0);

  await locker.query("rollback");
  await waitUntil(
    "checks are answered",
    () => readStatus(check(1)),
    10,
    (status) => status === 200,
  );
});
