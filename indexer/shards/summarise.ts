import pg from "pg";
import { CHANGED, DAY, HAS_CONTRACT, MADE, REVOKED } from "../../registry/activity.ts";
import { FINAL_BLOCK } from "./checkpoint.ts";
import type { Queryable } from "./queryable.ts";

/** Maximum changes in one statement. A reorg waits for the statement, so it has to be short. */
const BATCH_SIZE = 5_000;
/** The indexer's other tasks wait meanwhile. */
const MAX_DURATION_MS = 1_000;

/** A chain with final blocks that the summary does not include. */
type DueChain = { chain_id: string; summed: string; final: string };

/**
 * Adds final changes to the summary of an index, for about a second. No reorg changes a final block, so nothing is ever
 * subtracted. A reorg of another chain can revert final rows for a moment, before Ponder writes the same rows again;
 * each statement therefore stops at the block that the rows include at that time.
 * @returns true if no final change is left
 */
export const summarise = async (client: Queryable, schema: string): Promise<boolean> => {
  const startedAt = performance.now();
  for (const due of await findDueChains(client, schema)) {
    for (let { summed } = due; summed !== due.final; ) {
      if (performance.now() - startedAt > MAX_DURATION_MS) return false;
      summed = await addChanges(client, schema, { ...due, summed });
    }
  }
  return true;
};

const findDueChains = async (client: Queryable, schema: string): Promise<DueChain[]> => {
  const own = pg.escapeIdentifier(schema);
  const { rows } = await client.query<DueChain>(
    `select block.chain_id, coalesce(summary.block, -1) as summed, block.final
     from (
       select block.chain_id, ${FINAL_BLOCK} as final
       from ${own}.indexed_block block join ${own}._ponder_checkpoint checkpoint using (chain_id)
     ) block
     left join indexer.summary on summary.schema = $1 and summary.chain_id = block.chain_id
     where block.final > coalesce(summary.block, -1)`,
    [schema],
  );
  return rows;
};

/** @returns the last block that the summary includes now */
const addChanges = async (
  client: Queryable,
  schema: string,
  { chain_id, summed, final }: DueChain,
): Promise<string> => {
  const log = `${pg.escapeIdentifier(schema)}.delegation_change`;
  const { rows } = await client.query<{ block: string }>(
    // Names the tables in the order in which a reorg locks them.
    `with next as (
       select coalesce((
         select block_number from ${log}
         where chain_id = $2 and block_number > $3 and block_number <= $4
         order by block_number offset ${BATCH_SIZE} limit 1
       ), $4) as block
     ), part as (
       select least(next.block, indexed.number) as block
       from next, ${pg.escapeIdentifier(schema)}.indexed_block indexed where indexed.chain_id = $2
     ), change as materialized (
       select * from ${log} where chain_id = $2 and block_number > $3 and block_number <= (select block from part)
     ), daily as (
       insert into indexer.daily_summary as known (schema, chain_id, day, registry, type, made, changed, revoked)
       select $1, chain_id, ${DAY}, registry, type,
         count(*) filter (where ${MADE}), count(*) filter (where ${CHANGED}), count(*) filter (where ${REVOKED})
       from change group by 2, 3, 4, 5
       on conflict (schema, chain_id, day, registry, type) do update
       set made = known.made + excluded.made, changed = known.changed + excluded.changed, revoked = known.revoked + excluded.revoked
     ), contracts as (
       insert into indexer.contract_summary as known (schema, chain_id, contract, made, revoked)
       select $1, chain_id, contract, count(*) filter (where ${MADE}), count(*) filter (where ${REVOKED})
       from change where ${HAS_CONTRACT} group by 2, 3
       on conflict (schema, chain_id, contract) do update
       set made = known.made + excluded.made, revoked = known.revoked + excluded.revoked
     )
     insert into indexer.summary as known (schema, chain_id, block, complete) select $1, $2, block, block = $4 from part
     on conflict (schema, chain_id) do update set block = excluded.block, complete = known.complete or excluded.complete
     returning block`,
    [schema, chain_id, summed, final],
  );
  return rows[0]?.block ?? final;
};
