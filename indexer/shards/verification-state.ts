import { type Address, zeroHash } from "viem";
import { FINAL_BLOCK } from "./checkpoint.ts";
import { findTable } from "./ponder-tables.ts";
import type { Queryable } from "./queryable.ts";

/** How far the index of a chain has been compared with the registries. */
export type VerificationState = {
  chainId: number;
  /** The block up to which all changed wallets are compared; null: the index is not proven yet. */
  verified: number | null;
  /** The newest indexed block, and the newest final one. */
  indexed: number;
  final: number;
};

/** Reads the state of each chain that is live. */
export const readVerification = async (client: Queryable, schema: string): Promise<VerificationState[]> => {
  const blocks = await findTable(client, schema, "indexed_block");
  const checkpoints = await findTable(client, schema, "_ponder_checkpoint");
  if (!blocks || !checkpoints) return [];
  const { rows } = await client.query<VerificationState>(
    `select chain.chain_id::float8 as "chainId", verified_number::float8 as verified, block.number::float8 as indexed,
       ${FINAL_BLOCK}::float8 as final
     from indexer.chain join ${blocks} block on block.chain_id = chain.chain_id
     join ${checkpoints} checkpoint on checkpoint.chain_id = chain.chain_id
     where chain.schema = $1 and block.hash <> '${zeroHash}'`,
    [schema],
  );
  return rows;
};

/** Stores that wallets agree with the registries, and all changed ones up to a block. From then on the chain is served. */
export const saveVerified = async (
  client: Queryable,
  schema: string,
  { chainId, block, wallets }: { chainId: number; block: number; wallets: number },
): Promise<void> => {
  await client.query(
    `update indexer.chain set verified_number = greatest(verified_number, $3), verified_wallets = verified_wallets + $4,
       verified_at = clock_timestamp(), difference = null where schema = $1 and chain_id = $2`,
    [schema, chainId, block, wallets],
  );
};

/** Stores a difference from the registries. The chain is not served until the index has been proven again. */
export const saveDifference = async (
  client: Queryable,
  schema: string,
  { chainId, difference }: { chainId: number; difference: string },
): Promise<void> => {
  await client.query(
    "update indexer.chain set verified_number = null, difference = $3 where schema = $1 and chain_id = $2",
    [schema, chainId, difference],
  );
};

/** A wallet about which a proof of the API said something else than the index. */
export type Contradicted = { chainId: number; wallet: Address; block: number; at: number };

const TABLE = "service.contradicted";
/** Without a right to it, or without the table, nothing is known. */
const MAY_READ = `
  select coalesce(bool_and(has_schema_privilege(namespace.oid, 'usage') and has_table_privilege(class.oid, 'select')), false)
    and count(*) > 0 as "mayRead"
  from pg_class class join pg_namespace namespace on namespace.oid = relnamespace
  where nspname || '.' || relname = '${TABLE}'`;
/** Most of them at a time. */
const MAX_CONTRADICTED = 96;

/** Reads the wallets that the API has handed over after a time, the oldest first. */
export const readContradicted = async (client: Queryable, after: number): Promise<Contradicted[]> => {
  const { rows: rights } = await client.query<{ mayRead: boolean }>(MAY_READ);
  if (!rights[0]?.mayRead) return [];
  const at = "extract(epoch from found_at)::float8";
  const { rows } = await client.query<Contradicted>(
    `select chain_id::float8 as "chainId", wallet, block::float8 as block, ${at} as at from ${TABLE} where ${at} > $1
     order by found_at limit ${MAX_CONTRADICTED}`,
    [after],
  );
  return rows;
};
