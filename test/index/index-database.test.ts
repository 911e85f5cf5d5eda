import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import type { ChainPlan } from "../../indexer/plan.ts";
import type { Heads } from "../../indexer/shards/heads.ts";
import { hasCaughtUp, saveHeads } from "../../indexer/shards/heads.ts";
import { IndexerDatabase } from "../../indexer/shards/index-database.ts";
import { IndexTakenError } from "../../indexer/shards/index-lock.ts";
import { saveDifference, saveVerified } from "../../indexer/shards/verification-state.ts";
import { connectClient, createDatabase } from "../support/setup.ts";

// IndexerDatabase over schemas that look like Ponder's.

const createIndex = async (client: pg.Client, schema: string, columns: string, block: number) => {
  const meta = { table_names: ["delegation_v1", "indexed_block"], is_ready: 1, is_locked: 1 };
  await client.query(`create schema ${schema}`);
  await client.query(`create table ${schema}._ponder_meta (key text, value jsonb)`);
  await client.query(
    `create table ${schema}._ponder_checkpoint (chain_id bigint, latest_checkpoint text, finalized_checkpoint text)`,
  );
  await client.query(`create table ${schema}.delegation_v1 (${columns})`);
  for (const name of ["indexed_block", "_reorg__indexed_block"]) {
    await client.query(
      `create table ${schema}.${name} (chain_id bigint, number bigint, hash text, timestamp bigint default 1)`,
    );
  }
  await client.query(`insert into ${schema}._ponder_meta values ('app', $1)`, [meta]);
  await client.query(`insert into ${schema}.indexed_block values (1, $1, '0xabc')`, [block]);
  await client.query(`insert into ${schema}._ponder_checkpoint values (1, $1, $2)`, [
    formatCheckpoint(block),
    formatCheckpoint(90),
  ]);
};

/** Formats a checkpoint like Ponder: timestamp, chain, block, transaction, kind of event, event. */
const formatCheckpoint = (block: number) =>
  ["1700000000", "1".padStart(16, "0"), String(block).padStart(16, "0"), "9".repeat(16), "9", "9".repeat(16)].join("");

const setUp = async () => {
  const url = await createDatabase();
  const client = await connectClient(url);
  const createIndexer = async () => {
    const indexer = await IndexerDatabase.connect(url);
    onTestFinished(() => indexer.close().catch(() => {}));
    return indexer;
  };
  const shown = async () => (await client.query("select number::int from registry.indexed_block")).rows;
  return { client, createIndexer, shown };
};

const createHead = (number: bigint) => ({ number, timestamp: 1_700_000_000n, fetchedAt: performance.now() });

const HEADS = new Map([[1, createHead(100n)]]);

const PLAN: ChainPlan[] = [
  { chainId: 1, name: "Ethereum", rpcUrls: [], wsUrl: null, v1: null, v2: { address: "0xABC", startBlock: 0 } },
  { chainId: 10, name: "OP Mainnet", rpcUrls: [], wsUrl: null, v1: null, v2: { address: "0xABC", startBlock: 0 } },
];

/** Prepares an index as the indexer does before Ponder starts. */
const prepareIndex = async (indexer: IndexerDatabase, schema: string, heads: Heads = HEADS) => {
  await indexer.takeIndex("registry", schema);
  await saveHeads(indexer.connection, schema, PLAN, heads);
  await indexer.serveFromHeads(schema);
  await prove(indexer, schema, heads);
};

/** Stores that an index agrees with the registries. */
const prove = async ({ connection }: IndexerDatabase, schema: string, heads: Heads = HEADS) => {
  for (const [chainId, { number }] of heads) {
    await saveVerified(connection, schema, { chainId, block: Number(number), wallets: 1 });
  }
};

test("a chain is shown while its index is proven", async () => {
  const { client, createIndexer, shown } = await setUp();
  const indexer = await createIndexer();
  const schema = "registry_0000000001";
  await createIndex(client, schema, "vault text", 100);
  await prepareIndex(indexer, schema);
  await indexer.serve("registry", schema, HEADS);
  expect(await shown()).toEqual([{ number: 100 }]);
  await saveDifference(indexer.connection, schema, { chainId: 1, difference: "a wallet differs" });
  expect(await shown()).toEqual([]);
  await prove(indexer, schema);
  expect(await shown()).toEqual([{ number: 100 }]);
  // The next start is far behind the chain: what was proven is old.
  await saveHeads(indexer.connection, schema, PLAN, new Map([[1, createHead(1_101n)]]));
  await indexer.serveFromHeads(schema);
  const { rows } = await client.query("select verified_number from indexer.chain where chain_id = 1");
  expect(rows).toEqual([{ verified_number: null }]);
});

test("serve() shows each chain of the first index when the chain has caught up", async () => {
  const { client, createIndexer, shown } = await setUp();
  const indexer = await createIndexer();
  await createIndex(client, "registry_0000000001", "vault text", 100);
  await client.query("insert into registry_0000000001.indexed_block values (10, 49, '0xabc')");
  await client.query("insert into registry_0000000001._ponder_checkpoint values (10, $1, $1)", [formatCheckpoint(49)]);
  const heads = new Map([...HEADS, [10, createHead(50n)]]);
  await prepareIndex(indexer, "registry_0000000001", heads);
  expect(await indexer.serve("registry", "registry_0000000001", heads)).toBe(true);
  expect(await hasCaughtUp(indexer.connection, "registry_0000000001", heads)).toBe(false);
  expect(await shown()).toEqual([{ number: 100 }]);

  await client.query("update registry_0000000001.indexed_block set number = 50 where chain_id = 10");
  expect(await hasCaughtUp(indexer.connection, "registry_0000000001", heads)).toBe(true);
  expect(await shown()).toEqual([{ number: 100 }, { number: 50 }]);
});

test("serve() replaces an index only by one as new as its chains and as the served one", async () => {
  const { client, createIndexer, shown } = await setUp();
  const indexer = await createIndexer();
  await createIndex(client, "registry_0000000001", "vault text", 107);
  await prepareIndex(indexer, "registry_0000000001");
  expect(await indexer.serve("registry", "registry_0000000001", HEADS)).toBe(true);
  expect(await shown()).toEqual([{ number: 107 }]);
  const { rows } = await client.query("select finalized_number::int from registry.indexed_block");
  expect(rows).toEqual([{ finalized_number: 90 }]);

  await createIndex(client, "registry_0000000002", "vault text", 105);
  expect(await indexer.serve("registry", "registry_0000000002", HEADS)).toBe(false);
  expect(await indexer.findServedSchema("registry")).toBe("registry_0000000001");
  await client.query("update registry_0000000002.indexed_block set number = 107");
  await client.query(`update registry_0000000002._ponder_meta set value = value || '{"is_ready": 0}'`);
  expect(await indexer.serve("registry", "registry_0000000002", HEADS)).toBe(false);
  await client.query(`update registry_0000000002._ponder_meta set value = value || '{"is_ready": 1}'`);
  expect(await indexer.serve("registry", "registry_0000000002", HEADS)).toBe(true);
  expect(await indexer.findServedSchema("registry")).toBe("registry_0000000002");
});

test("beginRun() empties indexed_block until the index has caught up again", async () => {
  const { client, createIndexer, shown } = await setUp();
  const indexer = await createIndexer();
  await createIndex(client, "registry_0000000001", "vault text", 100);
  await prepareIndex(indexer, "registry_0000000001");
  await indexer.serve("registry", "registry_0000000001", HEADS);
  await client.query("insert into registry_0000000001._reorg__indexed_block values (1, 99, '0xdef')");
  await indexer.beginRun("registry", "registry_0000000001");
  expect(await shown()).toEqual([]);

  // Rows of the last run do not count, and no reorg restores them.
  expect((await client.query("select from registry_0000000001._reorg__indexed_block")).rowCount).toBe(0);
  await client.query("insert into registry_0000000001.indexed_block values (1, 100, '0xabc')");
  expect(await indexer.serve("registry", "registry_0000000001", HEADS)).toBe(false);
  await client.query(`update registry_0000000001._ponder_meta set value = value || '{"is_ready": 1}'`);
  expect(await shown()).toEqual([]);
  expect(await indexer.serve("registry", "registry_0000000001", HEADS)).toBe(true);
  expect(await shown()).toEqual([{ number: 100 }]);
  await client.query("update registry_0000000001.indexed_block set number = 99");
  expect(await shown()).toEqual([]);
});

test("serve() keeps grants on views with the same columns, and replaces views with other columns", async () => {
  const { client, createIndexer } = await setUp();
  const indexer = await createIndexer();
  await client.query("drop role if exists test_reader");
  await client.query("create role test_reader");
  const mayRead = async () =>
    (await client.query("select has_table_privilege('test_reader', 'registry.delegation_v1', 'select') as may")).rows[0]
      .may;

  await createIndex(client, "registry_0000000001", "vault text", 100);
  await indexer.serve("registry", "registry_0000000001", HEADS);
  await client.query("grant select on registry.delegation_v1 to test_reader");
  await createIndex(client, "registry_0000000002", "vault text", 100);
  await indexer.serve("registry", "registry_0000000002", HEADS);
  expect(await mayRead()).toBe(true);

  await createIndex(client, "registry_0000000003", "owner bigint, vault text", 100);
  expect(await indexer.serve("registry", "registry_0000000003", HEADS)).toBe(true);
  const { fields } = await client.query("select * from registry.delegation_v1");
  expect(fields.map(({ name }) => name)).toEqual(["owner", "vault"]);
  await client.query("drop owned by test_reader; drop role test_reader");
});

test("dropSuperseded() drops only indexes older than the one shown, and none that an indexer holds", async () => {
  const { client, createIndexer } = await setUp();
  const [old, shown, building] = [await createIndexer(), await createIndexer(), await createIndexer()];
  for (const [index, indexer] of [old, shown, building].entries()) {
    const schema = `registry_000000000${index}`;
    await createIndex(client, schema, "vault text", 100);
    await indexer.takeIndex("registry", schema);
  }
  await shown.serve("registry", "registry_0000000001", HEADS);
  expect(await shown.dropSuperseded("registry")).toEqual([]);
  await old.close();
  await building.close();
  expect(await shown.dropSuperseded("registry")).toEqual(["registry_0000000000"]);
  const { rows } = await client.query("select nspname from pg_namespace where nspname ~ '^registry_' order by 1");
  expect(rows.map(({ nspname }) => nspname)).toEqual(["registry_0000000001", "registry_0000000002"]);
});

test("an indexer that lost its connection takes its index again, or throws if another one has it", async () => {
  const { client, createIndexer } = await setUp();
  const [first, second] = [await createIndexer(), await createIndexer()];
  const disconnectFirst = () =>
    client.query(
      `select pg_terminate_backend(pid, 10000) from pg_locks
       where relation = 'indexer.lock_registry_0000000001'::regclass and granted`,
    );
  await first.takeIndex("registry", "registry_0000000001");
  await expect(second.takeIndex("registry", "registry_0000000001")).rejects.toThrow(IndexTakenError);

  await disconnectFirst();
  await expect.poll(() => first.findServedSchema("registry").catch(() => "lost"), { timeout: 10_000 }).toBeNull();
  await expect(second.takeIndex("registry", "registry_0000000001")).rejects.toThrow(IndexTakenError);

  await disconnectFirst();
  await second.takeIndex("registry", "registry_0000000001");
  await expect
    .poll(() => first.beginRun("registry", "registry_0000000001").catch((error: unknown) => error), { timeout: 10_000 })
    .toBeInstanceOf(IndexTakenError);
});

test("takeIndex() keeps its lock in spite of timeouts for transactions, and holds back no vacuum", async () => {
  const { client, createIndexer } = await setUp();
  const { rows: databases } = await client.query("select current_database() as name");
  for (const setting of ["idle_in_transaction_session_timeout", "transaction_timeout"]) {
    await client.query(`alter database ${databases[0].name} set ${setting} = '200ms'`);
  }
  const [first, second] = [await createIndexer(), await createIndexer()];
  await first.takeIndex("registry", "registry_0000000001");
  await sleep(800);
  expect(first.hasLostConnection).toBe(false);
  await expect(second.takeIndex("registry", "registry_0000000001")).rejects.toThrow(IndexTakenError);
  const { rows } = await client.query(
    `select state, backend_xid, backend_xmin from pg_stat_activity join pg_locks using (pid)
     where relation = 'indexer.lock_registry_0000000001'::regclass`,
  );
  expect(rows).toEqual([{ state: "idle in transaction", backend_xid: null, backend_xmin: null }]);
});

test("saveHeads() stores the progress of each chain, and deleting the index deletes it", async () => {
  const { client, createIndexer } = await setUp();
  const indexer = await createIndexer();
  const noted = async () =>
    (await client.query("select chain_id::int, newest_number::int, reached_number::int, v1, v2 from indexer.chain"))
      .rows;

  await indexer.takeIndex("registry", "registry_0000000001");
  await saveHeads(indexer.connection, "registry_0000000001", PLAN, HEADS);
  expect(await noted()).toEqual([{ chain_id: 1, newest_number: 100, reached_number: 0, v1: null, v2: "0xabc" }]);
  await createIndex(client, "registry_0000000001", "vault text", 60);
  await saveHeads(indexer.connection, "registry_0000000001", PLAN, HEADS);
  expect(await noted()).toEqual([{ chain_id: 1, newest_number: 100, reached_number: 60, v1: null, v2: "0xabc" }]);

  await client.query("delete from indexer.index");
  expect(await noted()).toEqual([]);
});

test("saveHeads() stores when a head was fetched, and nothing for a chain without one", async () => {
  const { client, createIndexer } = await setUp();
  const indexer = await createIndexer();
  await indexer.takeIndex("registry", "registry_0000000001");
  const readAge = async () =>
    (await client.query("select extract(epoch from now() - seen_at)::float8 as age from indexer.chain")).rows[0]?.age;

  const head = { number: 100n, timestamp: 1_700_000_000n, fetchedAt: performance.now() - 60_000 };
  await saveHeads(indexer.connection, "registry_0000000001", PLAN, new Map([[1, head]]));
  expect(await readAge()).toBeGreaterThan(59);
  expect(await readAge()).toBeLessThan(90);
  await saveHeads(indexer.connection, "registry_0000000001", PLAN, new Map());
  expect(await readAge()).toBeGreaterThan(59);
});
