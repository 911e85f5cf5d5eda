import { createHash } from "node:crypto";
import pg from "pg";
import { type Address, zeroAddress, zeroHash } from "viem";
import { indexSamples } from "../local/index-samples.ts";
import { logFile } from "./with-database.ts";

// Databases to measure: an index that an indexer built, filled up with generated delegations. Addresses of wallets and
// contracts are derived from their numbers, here and in SQL alike.

const addressSql = (kind: string, number: string) => `'0x00000000' || md5('${kind}' || (${number}))`;

/** Derives the address of the nth wallet or contract of a kind. */
const makeAddress = (kind: "vault" | "delegate" | "contract" | "collector", number: number): Address =>
  `0x00000000${createHash("md5").update(`${kind}${number}`).digest("hex")}`;

const TYPES = {
  v1: ["ALL", "CONTRACT", "TOKEN"],
  v2: ["ALL", "CONTRACT", "ERC721", "ERC20", "ERC1155"],
} as const;

/** Delegations of a collector. */
const LONG_LIST = 1_000;
/** Number of collectors in a data set. They have at most half of all delegations. */
const countCollectors = (size: number) => Math.min(50, Math.floor(size / LONG_LIST / 2));
const CONTRACTS = 5_000;

/** Derives the nth delegation. Each vault has three, each delegate two. */
export const makeDelegation = (number: number) => ({
  vault: makeAddress("vault", Math.floor(number / 3)),
  delegate: makeAddress("delegate", Math.floor(number / 2)),
  contract: makeAddress("contract", number % CONTRACTS),
  tokenId: number,
});

/** Lists the wallets with 1,000 delegations. */
export const listCollectors = (size: number): Address[] =>
  Array.from({ length: countCollectors(size) }, (_, number) => makeAddress("collector", number));

/** Number of delegations that `makeDelegation` derives in a data set of this size; the others are collectors'. */
export const ordinaryDelegations = (size: number): number => size - countCollectors(size) * LONG_LIST;

/** The generated delegations are in blocks from the first on. */
const FIRST_BLOCK = 1_000;
/** The newest indexed block, after all of them. */
export const NEWEST_BLOCK = 100_000_000;

/** A vault with 100,000 changes of 100 delegations, or fewer in a small data set. */
const BUSY_VAULT = makeAddress("collector", 1_000_000);
const countBusyChanges = (size: number) => Math.min(100_000, size);
export const busyDelegation = (number: number) => ({
  ...makeDelegation(number),
  vault: BUSY_VAULT,
  delegate: makeAddress("delegate", number % 100),
});

const BASE = "bench_base";

const databaseUrlOf = (serverUrl: string, database: string): string => {
  const url = new URL(serverUrl);
  url.pathname = `/${database}`;
  return url.href;
};

/** Creates a database per size, with that many delegations in each registry. */
export const createDataSets = async <Size extends number>(
  serverUrl: string,
  sizes: readonly Size[],
  log: (message: string) => void,
): Promise<Map<Size, string>> => {
  log("Indexing samples");
  await run(serverUrl, `drop database if exists ${BASE} with (force)`, `create database ${BASE}`);
  await indexSamples({ databaseUrl: databaseUrlOf(serverUrl, BASE), chainIds: [1], output: logFile("data-set") });

  const urls = new Map<Size, string>();
  for (const size of new Set(sizes)) {
    log(`Making ${size.toLocaleString("en")} delegations in each registry`);
    const name = `bench_${size}`;
    await run(serverUrl, `drop database if exists ${name} with (force)`, `create database ${name} template ${BASE}`);
    await fill(databaseUrlOf(serverUrl, name), size);
    urls.set(size, databaseUrlOf(serverUrl, name));
  }
  return urls;
};

const run = async (url: string, ...statements: string[]) => {
  const client = new pg.Client(url);
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
};

const fill = async (databaseUrl: string, size: number) => {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  try {
    const { rows } = await client.query("select schema from indexer.shard");
    const [{ schema }] = rows;
    // A replica's session skips the triggers that record how to revert a row.
    await client.query(
      "set session_replication_role = replica; set synchronous_commit = off; set maintenance_work_mem = '512MB'",
    );
    for (const version of ["v1", "v2"] as const) {
      const insert = (table: string) => insertDelegations(client, table, version, size);
      await fillTable(client, schema, `delegation_${version}`, insert);
    }
    await fillTable(client, schema, "delegation_change", (log) => insertChanges(client, schema, log, size));
    // All of these blocks are indexed.
    await client.query(`update ${schema}.indexed_block set number = ${NEWEST_BLOCK}`);
    await client.query("vacuum analyze");
    await client.query("checkpoint");
  } finally {
    await client.end();
  }
};

/** Inserts rows without indexes, then creates the indexes, like a backfill. */
const fillTable = async (
  client: pg.Client,
  schema: string,
  name: string,
  insert: (table: string) => Promise<unknown>,
) => {
  const table = `${schema}.${name}`;
  const indexes = await client.query(
    `select indexdef, indexname, exists (select from pg_constraint where conname = indexname and contype = 'p') as is_key
     from pg_indexes where schemaname = $1 and tablename = $2`,
    [schema, name],
  );
  for (const { indexname, is_key } of indexes.rows) {
    await client.query(
      is_key ? `alter table ${table} drop constraint "${indexname}"` : `drop index ${schema}."${indexname}"`,
    );
  }
  await insert(table);
  for (const { indexdef, indexname, is_key } of indexes.rows) {
    const key = `alter table ${table} add constraint "${indexname}" primary key ${indexdef.slice(indexdef.indexOf("("))}`;
    await client.query(is_key ? key : indexdef);
  }
};

const insertDelegations = async (client: pg.Client, table: string, version: "v1" | "v2", size: number) => {
  const columns = `chain_id, vault, delegate, type, contract, token_id, ${version === "v2" ? "rights, amount," : ""} block_number, log_index, block_timestamp, transaction_hash`;
  const rights = version === "v2" ? `'${zeroHash}', case when type in ('ERC20', 'ERC1155') then i else 0 end,` : "";
  const event = `${FIRST_BLOCK} + i, i % 100, 1700000000 + i, '0x' || repeat(md5(i::text), 2)`;
  const types = TYPES[version].map((type) => `'${type}'`).join();
  await client.query(
    `insert into ${table} (${columns})
     select 1, ${addressSql("vault", "i / 3")}, ${addressSql("delegate", "i / 2")}, type,
       case when type = 'ALL' then '${zeroAddress}' else ${addressSql("contract", `i % ${CONTRACTS}`)} end,
       case when type in ('TOKEN', 'ERC721', 'ERC1155') then i else 0 end, ${rights} ${event}
     from generate_series(0, ${ordinaryDelegations(size) - 1}) i, lateral (select (array[${types}])[1 + i % ${TYPES[version].length}] as type) t`,
  );
  await client.query(
    `insert into ${table} (${columns})
     select 1, ${addressSql("collector", `i / ${LONG_LIST}`)}, ${addressSql("delegate", "i")}, type, ${addressSql("contract", "i % 100")}, i, ${rights} ${event}
     from generate_series(0, ${countCollectors(size) * LONG_LIST - 1}) i, lateral (select '${version === "v1" ? "TOKEN" : "ERC721"}' as type) t`,
  );
};

/** Inserts the change that made each delegation, and those of the busy vault. */
const insertChanges = async (client: pg.Client, schema: string, log: string, size: number) => {
  const columns = `chain_id, block_number, log_index, ordinal, registry, vault, delegate, type, contract, token_id, rights,
    active, was_active, amount, event, block_timestamp, transaction_hash, made_block, made_log_index`;
  for (const [version, logIndex, rights] of [
    ["v1", "log_index", `'${zeroHash}', true, false, 0`],
    ["v2", "log_index + 1000", "rights, true, false, amount"],
  ] as const) {
    // The ordinal makes the positions of generated delegations unique.
    await client.query(
      `insert into ${log} (${columns})
       select chain_id, block_number, ${logIndex}, row_number() over (), '${version}', vault, delegate, type, contract, token_id,
         ${rights}, 'Delegate', block_timestamp, transaction_hash, block_number, ${logIndex}
       from ${schema}.delegation_${version} where block_number >= ${FIRST_BLOCK}`,
    );
  }
  await client.query(
    `insert into ${log} (${columns})
     select 1, ${FIRST_BLOCK} + i, 500, 0, 'v2', '${BUSY_VAULT}', ${addressSql("delegate", "i % 100")}, 'ALL', '${zeroAddress}', 0,
       '${zeroHash}', i / 100 % 2 = 0, i / 100 % 2 = 1, 0, 'DelegateAll', 1700000000 + i, '0x' || repeat(md5(i::text), 2),
       ${FIRST_BLOCK} + i - i / 100 % 2 * 100, 500
     from generate_series(0, ${countBusyChanges(size) - 1}) i`,
  );
};
