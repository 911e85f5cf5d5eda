import pg from "pg";
import { zeroHash } from "viem";
import { expect, onTestFinished, test } from "vitest";
import { type Api, CHECK, createSampleDatabase, FRESH_FOR_A_DAY, startApi, VAULT } from "../support/api.ts";
import { Random } from "../support/random.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { connect, createDatabase, startIndexer, until } from "../support/setup.ts";
import { Subject } from "../support/subject.ts";

// What cannot be answered is neither `false` nor `[]`.

const check = (chainId: number) => `${CHECK}&chainId=${chainId}`;
const list = (chainId: number) => `/registry/v1/${VAULT}?chainId=${chainId}`;

const expectRefusal = async (api: Api, path: string, problem: string, detail: RegExp) => {
  const response = await api.get(path);
  const body = await response.text();
  expect(response.status, body).toBe(503);
  expect(response.headers.get("Content-Type")).toBe("application/problem+json");
  expect(Number(response.headers.get("Retry-After"))).toBeGreaterThan(0);
  expect(JSON.parse(body)).toMatchObject({ type: `/docs#problem-${problem}`, status: 503 });
  expect(JSON.parse(body).detail).toMatch(detail);
};

const expectAnswered = async (api: Api, chainId: number) => {
  for (const path of [check(chainId), list(chainId)]) expect((await api.get(path)).status).toBe(200);
};

test("nothing is indexed yet: 503 for any network that could be, 400 for one that could not", async () => {
  const api = await startApi({ databaseUrl: await createDatabase() });
  await expectRefusal(api, check(1), "not-indexed", /shard "registry" has not started/);
  await expectRefusal(api, list(1), "not-indexed", /shard "registry" has not started/);
  await expectRefusal(api, "/ready", "not-indexed", /Shard "registry" has not started/);
  expect((await api.get(check(4))).status).toBe(400);
  expect((await api.get("/health")).status).toBe(200);
});

test("a chain that is being indexed: 503 with how far it is, then answers", async () => {
  const subject = await Subject.create(8453, new Random(3));
  await subject.mineRandomBlocks(35);
  const rpc = await startRpcProxy(subject.local.url);
  let isHeld = true;
  rpc.intercept = ({ method }) => (isHeld && method === "eth_getLogs" ? { status: 503 } : undefined);
  const databaseUrl = await createDatabase();
  const chains = [{ chainId: 8453, url: rpc.url }];
  await startIndexer({ databaseUrl, chains });
  const api = await startApi({ databaseUrl, env: FRESH_FOR_A_DAY });

  await until("the indexer has said what it indexes", async () => {
    const { chains } = (await (await api.get("/status")).json()) as { chains: unknown[] };
    return chains.length === 1;
  });
  await expectRefusal(api, check(8453), "not-indexed", /Base\) is still being indexed: .* block \d+ of 3\d/);
  await expectRefusal(api, list(8453), "not-indexed", /Base\) is still being indexed/);
  // What it does not index, it now knows.
  expect((await api.get(check(1))).status).toBe(400);

  isHeld = false;
  await until("it answers", async () => (await api.get(check(8453))).ok, 120);
  await until("it is ready", async () => (await api.get("/ready")).ok);
  await expectAnswered(api, 8453);
});

test("an index that is behind its chains after a restart, or unsure of its newest block: 503 until it knows", async () => {
  const databaseUrl = await createSampleDatabase();
  const database = await connect(databaseUrl);
  const api = await startApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  await expectAnswered(api, 1);

  await database.query("update indexer.shard set caught_up = false");
  for (const chainId of [1, 137]) {
    await expectRefusal(api, check(chainId), "not-indexed", /still being indexed/);
    await expectRefusal(api, list(chainId), "not-indexed", /still being indexed/);
  }
  await database.query("update indexer.shard set caught_up = true");
  await expectAnswered(api, 1);

  const { rows } = await database.query("select schema from indexer.shard");
  await database.query("set session_replication_role = replica");
  await database.query(`update ${rows[0].schema}.indexed_block set hash = '${zeroHash}' where chain_id = 1`);
  await expectRefusal(api, check(1), "not-indexed", /still being indexed/);
  await expectRefusal(api, list(1), "not-indexed", /still being indexed/);
  await expectAnswered(api, 137);
});

test("an index that has fallen behind: 503 with how old it is, per chain", async () => {
  const databaseUrl = await createSampleDatabase();
  const database = await connect(databaseUrl);
  const { rows } = await database.query("select schema from indexer.shard");
  await database.query("set session_replication_role = replica");
  const age = (seconds: number, chainId: number) =>
    database.query(
      `update ${rows[0].schema}.indexed_block set timestamp = extract(epoch from now())::bigint - $1 where chain_id = $2`,
      [seconds, chainId],
    );
  await age(700, 1);
  await age(500, 137);
  const api = await startApi({ databaseUrl });
  await expectRefusal(
    api,
    check(1),
    "stale-index",
    /Ethereum\) is indexed up to block \d+ only, which is 7\d\d s old; here at most 600/,
  );
  await expectRefusal(api, list(1), "stale-index", /Ethereum/);
  await expectRefusal(api, "/ready", "not-indexed", /Ethereum/);
  await expectAnswered(api, 137);
  await age(0, 1);
  await expectAnswered(api, 1);
});

test("a shard that is missing costs its own chains, and no others", async () => {
  const databaseUrl = await createSampleDatabase();
  const database = await connect(databaseUrl);
  const api = await startApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, INDEX_SCHEMAS: "registry, base_shard" } });
  await expectAnswered(api, 1);
  await expectAnswered(api, 137);
  // It could be one of the missing shard's.
  await expectRefusal(api, check(8453), "not-indexed", /"base_shard" has not started/);
  await expectRefusal(api, "/ready", "not-indexed", /"base_shard" has not started/);

  // Its views are gone altogether.
  await database.query("drop schema registry cascade");
  await expectRefusal(api, check(1), "not-indexed", /are not there yet|still being indexed/);
});

test("a shard that cannot be read costs its own chains, and no others", async () => {
  const databaseUrl = await createSampleDatabase();
  const database = await connect(databaseUrl);
  await copyShard(database, "ill", [10]);
  await database.query("create or replace view ill.indexed_block as select 1 as nonsense").catch(async () => {
    await database.query("drop view ill.indexed_block");
    await database.query("create view ill.indexed_block as select 1 as nonsense");
  });
  const api = await startApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, INDEX_SCHEMAS: "ill,registry" } });
  await expectAnswered(api, 1);
  await expectAnswered(api, 137);
  expect((await api.get(check(10))).status).toBeGreaterThanOrEqual(500);
});

test("a chain in two shards is answered from the fresher one", async () => {
  const databaseUrl = await createSampleDatabase();
  const database = await connect(databaseUrl);
  // The shard named first has been left behind; what it says of the hot wallet was true then.
  await copyShard(database, "left_behind", [1, 137]);
  const api = await startApi({
    databaseUrl,
    env: { MAX_INDEX_LAG_SECONDS: "3600", INDEX_SCHEMAS: "left_behind,registry" },
  });
  await expectAnswered(api, 1);
  const { chains } = (await (await api.get("/status")).json()) as { chains: { shard: string }[] };
  expect(chains.map(({ shard }) => shard)).toEqual(["registry", "registry"]);
});

test("a registry that the served index was built without: 503, not false", async () => {
  const databaseUrl = await createSampleDatabase();
  const database = await connect(databaseUrl);
  await database.query("update indexer.chain set v1 = null where chain_id = 1");
  const api = await startApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  await expectRefusal(api, list(1), "not-indexed", /v1 registry on Ethereum is not in the index/);
  expect((await api.get(check(1))).status).toBe(200);
  await expectAnswered(api, 137);
});

test("a statement that takes too long ends by its time limit, and the service goes on", async () => {
  const databaseUrl = await createSampleDatabase();
  const database = await connect(databaseUrl);
  const api = await startApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  await expectAnswered(api, 1);

  const locker = new pg.Client(databaseUrl);
  await locker.connect();
  onTestFinished(() => locker.end());
  const { rows } = await database.query("select schema from indexer.shard");
  await locker.query("begin");
  await locker.query(`lock table ${rows[0].schema}.delegation_v2 in access exclusive mode`);

  const startedAt = Date.now();
  await Promise.all(
    Array.from({ length: 50 }, () => expectRefusal(api, check(1), "overloaded", /took too long|being looked up/)),
  );
  // Two rounds at most: the first ones were under way when the others came.
  expect(Date.now() - startedAt).toBeLessThan(4500);
  // Nothing is left behind in Postgres, and other tables are not affected.
  expect((await api.get(list(1))).status).toBe(200);
  const { rows: waiting } = await database.query(
    "select 1 from pg_stat_activity where application_name = 'api' and datname = current_database() and state = 'active'",
  );
  expect(waiting).toEqual([]);

  await locker.query("rollback");
  await expectAnswered(api, 1);
  expect(api.output()).not.toContain("out of reach");
});

/** Another shard with the views of the first, two hours older, for some chains. */
const copyShard = async (database: pg.Client, name: string, chainIds: readonly number[]) => {
  const { rows } = await database.query("select schema from indexer.shard where name = 'registry'");
  const { schema } = rows[0];
  await database.query(`create schema ${name}`);
  for (const view of ["delegation_v1", "delegation_v2"]) {
    await database.query(`create view ${name}.${view} as select * from ${schema}.${view}`);
  }
  await database.query(
    `create view ${name}.indexed_block as
     select chain_id, number, hash, timestamp - 7200 as timestamp, 0::bigint as finalized_number from ${schema}.indexed_block`,
  );
  const index = `${name}_0123456789`;
  await database.query("insert into indexer.index values ($1, $2, now())", [index, name]);
  await database.query("insert into indexer.shard values ($1, $2, true, now())", [name, index]);
  for (const chainId of chainIds) {
    await database.query(
      `insert into indexer.chain (schema, chain_id, newest_number, newest_timestamp, reached_number, v1, v2, seen_at)
       select $1, $2, newest_number, newest_timestamp, reached_number, v1, v2, now() from indexer.chain where chain_id = 1 limit 1`,
      [index, chainId],
    );
  }
};
