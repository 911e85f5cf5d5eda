import pg from "pg";
import { zeroHash } from "viem";
import { blockReaders, rebuildAnalytics } from "../analytics/update-analytics.ts";
import { FINAL_BLOCK, FINAL_TIMESTAMP } from "./checkpoint.ts";
import { quoteTable } from "./ponder-tables.ts";
import type { Queryable } from "./queryable.ts";

/** Postgres's error code for a view that would change its columns. */
const INVALID_TABLE_DEFINITION = "42P16";

/** Points a shard's views at an index, within a transaction. */
export const replaceViews = async (client: Queryable, shard: string, schema: string): Promise<void> => {
  if (await hasOtherColumns(client, shard, schema)) await blockReaders(client);
  // In the order in which Ponder locks its tables: a reader that uses this order never deadlocks.
  const { rows } = await client.query<{ name: string }>(
    `select jsonb_array_elements_text(value->'table_names' || '["_ponder_meta", "_ponder_checkpoint"]') as name
     from ${pg.escapeIdentifier(schema)}._ponder_meta`,
  );
  await client.query(`create schema if not exists ${pg.escapeIdentifier(shard)}`);
  // Every answer reads a checkpoint by chain id; Ponder's own key is the chain's name.
  await client.query(
    `create index if not exists checkpoint_by_chain_id on ${quoteTable(schema, "_ponder_checkpoint")} (chain_id)`,
  );
  const renamed: string[] = [];
  for (const { name } of rows) {
    const old = await replaceView(client, shard, schema, name);
    if (old) renamed.push(old);
  }
  if (renamed.length === 0) return;
  // The analytics views move to the new views before the old ones are dropped, so they never disappear.
  await rebuildAnalytics(client);
  for (const view of renamed) await client.query(`drop view ${view}`);
};

/** True if a view of the shard has columns that differ from the index's. */
const hasOtherColumns = async (client: Queryable, shard: string, schema: string): Promise<boolean> => {
  const columns = "relname, attname, attnum, atttypid, atttypmod";
  const { rows } = await client.query<{ other: boolean }>(
    `with attribute as (select relnamespace, ${columns} from pg_attribute join pg_class on attrelid = pg_class.oid)
     select exists (
       select ${columns} from attribute where relnamespace = to_regnamespace($1) and attname not in ('finalized_number', 'finalized_timestamp')
       except select ${columns} from attribute where relnamespace = to_regnamespace($2)
     ) as other`,
    [pg.escapeIdentifier(shard), pg.escapeIdentifier(schema)],
  );
  return rows[0]?.other === true;
};

/**
 * Replaces a view in place. A view with other columns has to be a new one, which loses its grants.
 * @returns the new name of the old view, if it had other columns
 */
const replaceView = async (client: Queryable, shard: string, schema: string, name: string): Promise<string | null> => {
  const view = quoteTable(shard, name);
  const select =
    name === "indexed_block" ? selectIndexedBlock(shard, schema) : `select * from ${quoteTable(schema, name)}`;
  await client.query("savepoint replacing");
  try {
    await client.query(`create or replace view ${view} as ${select}`);
    return null;
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || error.code !== INVALID_TABLE_DEFINITION) throw error;
    await client.query("rollback to savepoint replacing");
    const old = `${name}_old`;
    await client.query(`alter view ${view} rename to ${pg.escapeIdentifier(old)}`);
    await client.query(`create view ${view} as ${select}`);
    return quoteTable(shard, old);
  }
};

/**
 * Selects the newest block that a shard's rows include, and the newest that is final to Ponder: never later than the
 * former, although a reorg of another chain can leave it later for a moment. The view has no row for a chain while its
 * index is behind or not proven, nor for an unresolved block.
 */
const selectIndexedBlock = (shard: string, schema: string) =>
  `select block.*, ${FINAL_BLOCK} as finalized_number, ${FINAL_TIMESTAMP} as finalized_timestamp
   from ${quoteTable(schema, "indexed_block")} block
   join ${quoteTable(schema, "_ponder_checkpoint")} checkpoint on checkpoint.chain_id = block.chain_id
   join indexer.chain on chain.schema = ${pg.escapeLiteral(schema)} and chain.chain_id = block.chain_id
   where block.hash <> '${zeroHash}' and block.number >= chain.serve_from and chain.verified_number is not null
     and (select caught_up from indexer.shard where name = ${pg.escapeLiteral(shard)})`;
