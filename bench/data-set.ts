import { createHash } from "node:crypto";
import pg from "pg";
import { type Address, zeroAddress, zeroHash } from "viem";
import { runIndexer } from "../indexer/run-indexer.ts";
import { parseIndexerSettings } from "../indexer/settings.ts";
import { startLocalChain } from "../sandbox/chain.ts";
import { compileContracts } from "../sandbox/contracts.ts";
import { sendSamples } from "../sandbox/samples.ts";
import { findFreePort } from "../stack/ports.ts";
import { logFile } from "./database.ts";

// Databases to measure on: an index as an indexer left it, filled up with so many delegations in each
// registry. Wallets and contracts are made from their numbers, here and in SQL alike.

const addressSql = (kind: string, number: string) => `'0x00000000' || md5('${kind}' || (${number}))`;

/** The address of the nth wallet or contract of a kind. */
const addressOf = (kind: "vault" | "delegate" | "contract" | "collector", number: number): Address =>
  `0x00000000${createHash("md5").update(`${kind}${number}`).digest("hex")}`;

const TYPES = {
  v1: ["ALL", "CONTRACT", "TOKEN"],
  v2: ["ALL", "CONTRACT", "ERC721", "ERC20", "ERC1155"],
} as const;

/** How many delegations a collector has; and how many collectors there are: at most half of all delegations are theirs. */
const LONG_LIST = 1_000;
const collectorsIn = (size: number) => Math.min(50, Math.floor(size / LONG_LIST / 2));
const CONTRACTS = 5_000;

/** What the nth delegation is about: each vault has three, each delegate two. */
export const delegationOf = (number: number) => ({
  vault: addressOf("vault", Math.floor(number / 3)),
  delegate: addressOf("delegate", Math.floor(number / 2)),
  contract: addressOf("contract", number % CONTRACTS),
  tokenId: number,
});

/** Wallets with a thousand delegations. */
export const collectors = (size: number): Address[] =>
  Array.from({ length: collectorsIn(size) }, (_, number) => addressOf("collector", number));

/** How many delegations delegationOf() knows of, where there are so many in all. */
export const ordinaryDelegations = (size: number): number => size - collectorsIn(size) * LONG_LIST;

const BASE = "bench_base";

const urlOf = (serverUrl: string, database: string): string => {
  const url = new URL(serverUrl);
  url.pathname = `/${database}`;
  return url.href;
};

/** Makes databases with so many delegations in each registry. */
export const createDataSets = async <Size extends number>(
  serverUrl: string,
  sizes: readonly Size[],
  log: (message: string) => void,
): Promise<Map<Size, string>> => {
  log("Indexing samples");
  await run(serverUrl, `drop database if exists ${BASE} with (force)`, `create database ${BASE}`);
  await indexSamples(urlOf(serverUrl, BASE));

  const urls = new Map<Size, string>();
  for (const size of new Set(sizes)) {
    log(`Making ${size.toLocaleString("en")} delegations in each registry`);
    const name = `bench_${size}`;
    await run(serverUrl, `drop database if exists ${name} with (force)`, `create database ${name} template ${BASE}`);
    await fill(urlOf(serverUrl, name), size);
    urls.set(size, urlOf(serverUrl, name));
  }
  return urls;
};

const run = async (url: string, ...statements: string[]) => {
  const client = new pg.Client(url);
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
};

/** The sandbox's samples on chain 1, indexed by a real indexer that ends then. */
const indexSamples = async (databaseUrl: string) => {
  const code = await compileContracts();
  const output = logFile("data-set");
  const chain = await startLocalChain(1, code);
  const settings = parseIndexerSettings({
    PONDER_RPC_URL_1: chain.url,
    START_BLOCK_1: "0",
    POLLING_INTERVAL_MS: "200",
    INDEXER_PORT: String(await findFreePort()),
  });
  const ready = new AbortController();
  try {
    await sendSamples(chain, code);
    const onReady = () => ready.abort();
    await runIndexer(settings, { databaseUrl, log: () => {}, output, restart: false, signal: ready.signal, onReady });
  } catch (error) {
    if (!ready.signal.aborted) throw error;
  } finally {
    await chain.stop();
  }
};

const fill = async (databaseUrl: string, size: number) => {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const { rows } = await client.query("select schema from indexer.shard");
  const { schema } = rows[0];
  // As an indexer would have left them, without the triggers that note how to undo them; and with indexes
  // that are made when the rows are there, as after a backfill.
  await client.query(
    "set session_replication_role = replica; set synchronous_commit = off; set maintenance_work_mem = '512MB'",
  );
  for (const version of ["v1", "v2"] as const) {
    const table = `${schema}.delegation_${version}`;
    const indexes = await client.query(
      `select indexdef, indexname, exists (select from pg_constraint where conname = indexname and contype = 'p') as is_key
       from pg_indexes where schemaname = $1 and tablename = $2`,
      [schema, `delegation_${version}`],
    );
    for (const { indexname, is_key } of indexes.rows) {
      await client.query(
        is_key ? `alter table ${table} drop constraint "${indexname}"` : `drop index ${schema}."${indexname}"`,
      );
    }
    const columns = `chain_id, vault, delegate, type, contract, token_id, ${version === "v2" ? "rights, amount," : ""} block_number, log_index, block_timestamp, transaction_hash`;
    const rights = version === "v2" ? `'${zeroHash}', case when type in ('ERC20', 'ERC1155') then i else 0 end,` : "";
    const event = `1000 + i, i % 100, 1700000000 + i, '0x' || repeat(md5(i::text), 2)`;
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
       from generate_series(0, ${collectorsIn(size) * LONG_LIST - 1}) i, lateral (select '${version === "v1" ? "TOKEN" : "ERC721"}' as type) t`,
    );
    for (const { indexdef, indexname, is_key } of indexes.rows) {
      const keyed = is_key ? ` primary key ${indexdef.slice(indexdef.indexOf("("))}` : "";
      await client.query(is_key ? `alter table ${table} add constraint "${indexname}"${keyed}` : indexdef);
    }
  }
  await client.query("vacuum analyze");
  await client.query("checkpoint");
  await client.end();
};
