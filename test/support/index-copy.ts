import type pg from "pg";
import type { ChainPlan } from "../../indexer/plan.ts";
import { saveHeads } from "../../indexer/shards/heads.ts";
import { IndexerDatabase } from "../../indexer/shards/index-database.ts";
import { saveVerified } from "../../indexer/shards/verification-state.ts";
import { createSampleDatabase, FRESH_FOR_A_DAY, startTestApi } from "./api.ts";
import { connectClient } from "./setup.ts";

/** Reads the schema of the index that a shard serves. */
export const readServedSchema = async (client: pg.Client, shard = "registry"): Promise<string> => {
  const { rows } = await client.query("select schema from indexer.shard where name = $1", [shard]);
  return rows[0].schema;
};

/** Hides a column of the log, like an index of an older version that lacks it. */
export const hideLogColumn = async (client: pg.Client, column: string): Promise<void> => {
  const { rows } = await client.query(
    `select string_agg(attname, ', ') as columns from pg_attribute
     where attrelid = 'registry.delegation_change'::regclass and attnum > 0 and attname <> $1`,
    [column],
  );
  const schema = await readServedSchema(client);
  await client.query("drop view registry.delegation_change cascade");
  await client.query(
    `create view registry.delegation_change as select ${rows[0].columns} from ${schema}.delegation_change`,
  );
};

const TABLES = [
  "delegation_change",
  "delegation_v1",
  "delegation_v2",
  "indexed_block",
  "vault_v1",
  "_ponder_meta",
  "_ponder_checkpoint",
];

/** Copies an index, like one that an indexer with other settings built. */
export const copyIndex = async (client: pg.Client, from: string, to: string): Promise<void> => {
  await client.query(`create schema ${to}`);
  for (const table of TABLES) {
    await client.query(`create table ${to}.${table} (like ${from}.${table} including all)`);
    await client.query(`insert into ${to}.${table} select * from ${from}.${table}`);
  }
  await client.query(`update ${to}._ponder_meta set value = value || '{"is_ready": 1}'`);
};

/** Connects as the indexer of a copied index. */
export const takeCopy = async (databaseUrl: string, client: pg.Client, shard: string, schema: string) => {
  const indexer = await IndexerDatabase.connect(databaseUrl);
  await indexer.takeIndex(shard, schema);
  const { rows } = await client.query(
    `select block.chain_id::int as id, block.number, block.timestamp, v1, v2
     from ${schema}.indexed_block block join indexer.chain using (chain_id)
     where chain.schema in (select schema from indexer.shard where name = 'registry')`,
  );
  const heads = new Map(
    rows.map(({ id, number, timestamp }) => [
      id,
      { number: BigInt(number), timestamp: BigInt(timestamp), fetchedAt: performance.now() },
    ]),
  );
  const plan: ChainPlan[] = rows.map(({ id, v1, v2 }) => ({
    chainId: id,
    name: String(id),
    rpcUrls: [],
    wsUrl: null,
    v1: { address: v1, startBlock: 0 },
    v2: { address: v2, startBlock: 0 },
  }));
  await saveHeads(indexer.connection, schema, plan, heads);
  for (const [chainId, { number }] of heads) {
    await saveVerified(indexer.connection, schema, { chainId, block: Number(number), wallets: 0 });
  }
  return { indexer, serve: () => indexer.serve(shard, schema, heads) };
};

/** Starts an API over samples whose index a test has changed. `start` starts another one. */
export const startChangedSamples = async (
  change: (database: pg.Client, schema: string) => Promise<unknown>,
  env: NodeJS.ProcessEnv = FRESH_FOR_A_DAY,
) => {
  const databaseUrl = await createSampleDatabase();
  const database = await connectClient(databaseUrl);
  // Without Ponder's triggers.
  await database.query("set session_replication_role = replica");
  const schema = await readServedSchema(database);
  await change(database, schema);
  const start = () => startTestApi({ databaseUrl, env });
  return { database, schema, start, api: await start() };
};
