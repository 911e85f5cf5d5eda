import type { Hash } from "viem";
import { FINAL_BLOCK } from "./checkpoint.ts";
import { findTable } from "./ponder-tables.ts";
import type { Queryable } from "./queryable.ts";

/** Final blocks that are kept for each chain: those of the last hours. */
const KEPT_BLOCKS = 200;

export type FinalBlock = { number: number; hash: Hash };

/** The newest block of a chain that is final to Ponder, and the newest one that is indexed. */
export type Finality = { chainId: number; final: number; indexed: number };

/** Reads the finality of each chain that is live. */
export const readFinality = async (client: Queryable, schema: string): Promise<Finality[]> => {
  const blocks = await findTable(client, schema, "indexed_block");
  const checkpoints = await findTable(client, schema, "_ponder_checkpoint");
  if (!blocks || !checkpoints) return [];
  const { rows } = await client.query<Finality>(
    `select block.chain_id::float8 as "chainId", ${FINAL_BLOCK}::float8 as final, block.number::float8 as indexed
     from ${blocks} block join ${checkpoints} checkpoint on checkpoint.chain_id = block.chain_id`,
  );
  return rows;
};

/** The final blocks of a chain that an index is based on. */
export type FinalBlocks = {
  /** Those that the index has stored, newest first. */
  stored: FinalBlock[];
  /** The newest one that Ponder has fetched. */
  fetched: FinalBlock | undefined;
  /** The last valid block, if another index has found that a reorg has replaced later ones. */
  valid: number | null;
};

export const readFinalBlocks = async (client: Queryable, schema: string, chainId: number): Promise<FinalBlocks> => {
  const { rows: stored } = await client.query<FinalBlock>(
    "select number::float8, hash from indexer.final_block where schema = $1 and chain_id = $2 order by number desc",
    [schema, chainId],
  );
  const cache = await findTable(client, "ponder_sync", "blocks");
  const newest = `select number::float8, hash from ${cache} where chain_id = $1 order by number desc limit 1`;
  const { rows: fetched } = cache ? await client.query<FinalBlock>(newest, [chainId]) : { rows: [] };
  const { rows: marked } = await client.query<{ valid: number | null }>(
    "select valid_number::float8 as valid from indexer.chain where schema = $1 and chain_id = $2",
    [schema, chainId],
  );
  return { stored, fetched: fetched[0], valid: marked[0]?.valid ?? null };
};

export const saveFinalBlock = async (
  client: Queryable,
  schema: string,
  chainId: number,
  { number, hash }: FinalBlock,
): Promise<void> => {
  await client.query(
    `insert into indexer.final_block (schema, chain_id, number, hash) values ($1, $2, $3, $4)
     on conflict (schema, chain_id, number) do update set hash = excluded.hash`,
    [schema, chainId, number, hash],
  );
  await client.query(
    `delete from indexer.final_block where schema = $1 and chain_id = $2 and number < (
       select number from indexer.final_block where schema = $1 and chain_id = $2
       order by number desc offset ${KEPT_BLOCKS - 1} limit 1
     )`,
    [schema, chainId],
  );
};
