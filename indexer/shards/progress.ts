import { checkpointBlock } from "./checkpoint.ts";
import { findTable } from "./ponder-tables.ts";
import type { Queryable } from "./queryable.ts";

/** Progress of an index on a chain, in block numbers. */
export type IndexProgress = { chainId: number; start: number; reached: number; newest: number };

/** Reads the progress of an index on each of its chains: the block reached from Ponder, the others as last stored. */
export const readProgress = async (client: Queryable, schema: string): Promise<IndexProgress[]> => {
  const checkpoints = await findTable(client, schema, "_ponder_checkpoint");
  const { rows } = await client.query<IndexProgress>(
    `select chain.chain_id::float8 as "chainId", chain.start_number::float8 as start, chain.newest_number::float8 as newest,
       coalesce(${checkpoints ? checkpointBlock("latest_checkpoint") : "null"}, 0)::float8 as reached
     from indexer.chain
     ${checkpoints ? `left join ${checkpoints} checkpoint on checkpoint.chain_id = chain.chain_id` : ""}
     where chain.schema = $1 and chain.start_number is not null
     order by chain.chain_id`,
    [schema],
  );
  return rows;
};
