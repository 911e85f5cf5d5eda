import { selectActiveAt } from "../../registry/state-at.ts";
import { formatCheckpoint } from "./checkpoint.ts";
import { findTable, quoteTable } from "./ponder-tables.ts";
import type { Queryable } from "./queryable.ts";

// Undoes the blocks of a chain after a reorg that is deeper than final. Ponder reverts only blocks that are not final.

/** The last block of a chain before those that a reorg has replaced. */
export type ValidBlock = { chainId: number; number: number; timestamp: bigint };

/** The largest bigint of Postgres: no block is that high. */
const NEVER = 2n ** 63n - 1n;

/** Tables with rows of a chain, in the order in which statements lock them. */
const TABLES = ["delegation_change", "delegation_v1", "delegation_v2", "indexed_block", "vault_v1"];

/** Ponder's tables of fetched data, with their columns for the block. */
const CACHE = {
  blocks: "number",
  transactions: "block_number",
  transaction_receipts: "block_number",
  logs: "block_number",
  traces: "block_number",
  rpc_request_results: "block_number",
};

/**
 * Removes all that an index and Ponder's cache have of a chain after a block, within a transaction. No index answers for
 * the chain until its indexer has done the same.
 */
export const rewindChain = async (client: Queryable, schema: string, block: ValidBlock): Promise<void> => {
  const { chainId, number } = block;
  await client.query(
    `update indexer.chain set serve_from = $3, verified_number = null, valid_number = case when schema <> $1 then least(valid_number, $4) end
     where chain_id = $2`,
    [schema, chainId, NEVER, number],
  );
  await rewindCache(client, block);
  if (await findTable(client, schema, "_ponder_checkpoint")) await rewindRows(client, schema, block);
  for (const table of ["summary", "daily_summary", "contract_summary"]) {
    await client.query(`delete from indexer.${table} where schema = $1 and chain_id = $2`, [schema, chainId]);
  }
  const forget = "delete from indexer.final_block where schema = $1 and chain_id = $2 and number > $3";
  await client.query(forget, [schema, chainId, number]);
};

const rewindRows = async (client: Queryable, schema: string, block: ValidBlock): Promise<void> => {
  const { chainId, number } = block;
  // Ponder's triggers would record the changes to revert them.
  for (const table of TABLES) await client.query(`alter table ${quoteTable(schema, table)} disable trigger user`);
  const log = quoteTable(schema, "delegation_change");
  // Null means that the delegations are looked up in their table. The log of a vault may lack what its list has.
  await client.query(
    `update ${quoteTable(schema, "vault_v1")} set delegations = null where chain_id = $1 and vault in (
       select vault from ${log} where chain_id = $1 and block_number > $2 and registry = 'v1'
       union select vault from ${quoteTable(schema, "delegation_v1")} where chain_id = $1 and block_number > $2)`,
    [chainId, number],
  );
  await restoreDelegations(client, schema, "v1", block);
  await restoreDelegations(client, schema, "v2", block);
  await client.query(`delete from ${log} where chain_id = $1 and block_number > $2`, [chainId, number]);
  for (const table of TABLES) {
    await client.query(`alter table ${quoteTable(schema, table)} enable trigger user`);
    const reorgTable = await findTable(client, schema, `_reorg__${table}`);
    if (reorgTable) await client.query(`delete from ${reorgTable} where chain_id = $1`, [chainId]);
  }
  await client.query(
    `update ${quoteTable(schema, "_ponder_checkpoint")} set latest_checkpoint = least(latest_checkpoint, $2),
       safe_checkpoint = least(safe_checkpoint, $2), finalized_checkpoint = least(finalized_checkpoint, $2)
     where chain_id = $1`,
    [chainId, formatCheckpoint(block)],
  );
};

const KEYS = {
  v1: ["vault", "delegate", "type", "contract", "token_id"],
  v2: ["vault", "delegate", "type", "contract", "token_id", "rights"],
};

/** Restores the delegations that the undone blocks have changed, from the log: their state then, and who made them. */
const restoreDelegations = async (
  client: Queryable,
  schema: string,
  registry: "v1" | "v2",
  { chainId, number }: ValidBlock,
): Promise<void> => {
  const log = quoteTable(schema, "delegation_change");
  const table = quoteTable(schema, `delegation_${registry}`);
  const key = KEYS[registry].join(", ");
  const changed = `(${key}) in (
    select ${key} from ${log} where chain_id = $1 and block_number > $2 and registry = '${registry}')`;
  // Also those that the log does not have: a database that has lost a row of it.
  const undone = `(${changed} or block_number > $2)`;
  await client.query(`delete from ${table} where chain_id = $1 and ${undone}`, [chainId, number]);

  const before = `chain_id = $1 and block_number <= $2 and registry = '${registry}'`;
  const state = registry === "v2" ? `${key}, amount` : key;
  const position = "block_number, log_index, block_timestamp, transaction_hash";
  await client.query(
    `insert into ${table} (chain_id, ${state}, ${position})
     select $1, ${state}, made.* from ${selectActiveAt(log, `${before} and ${changed}`)} latest
     cross join lateral (
       select ${position} from ${log} where chain_id = $1 and ordinal = 0
         and block_number = latest.made_block and log_index = latest.made_log_index
     ) made`,
    [chainId, number],
  );
};

const rewindCache = async (client: Queryable, { chainId, number }: ValidBlock): Promise<void> => {
  if (!(await findTable(client, "ponder_sync", "intervals"))) return;
  for (const [table, column] of Object.entries(CACHE)) {
    await client.query(`delete from ponder_sync.${table} where chain_id = $1 and coalesce(${column} > $2, true)`, [
      chainId,
      number,
    ]);
  }
  // Ponder stores a range of blocks with one more at its end.
  await client.query(
    "update ponder_sync.intervals set blocks = blocks * nummultirange(numrange(null, $2::numeric + 1, '[]')) where chain_id = $1",
    [chainId, number],
  );
  await client.query("delete from ponder_sync.intervals where chain_id = $1 and isempty(blocks)", [chainId]);
};
