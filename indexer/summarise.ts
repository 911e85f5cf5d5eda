import pg from "pg";
import { CHANGED, DAY, MADE, OF_A_CONTRACT, REVOKED } from "../registry/activity.ts";
import { FINAL_BLOCK } from "./checkpoint.ts";

type Queries = Pick<pg.Client, "query">;

/** Changes that are summed up in one statement: it is over before a reorg, which has to wait for it, minds. */
const CHANGES_AT_ONCE = 5_000;
/** The indexer has other things to do as well. */
const LONGEST_MS = 1_000;

type Due = { chain_id: string; summed: string; final: string };

/**
 * Adds what has become final to the sums of an index. Nothing is ever taken back from them: no reorg changes a
 * final block. (A reorg of another chain can undo its rows for a moment, to make the same ones again: what is summed
 * up goes no further than the rows do in the same statement.)
 * @returns whether nothing is left
 */
export const summarise = async (client: Queries, schema: string): Promise<boolean> => {
  const startedAt = performance.now();
  for (const due of await findDue(client, schema)) {
    for (let { summed } = due; summed !== due.final; ) {
      if (performance.now() - startedAt > LONGEST_MS) return false;
      summed = await addChanges(client, schema, { ...due, summed });
    }
  }
  return true;
};

/** The chains that have final blocks which are not summed up. */
const findDue = async (client: Queries, schema: string): Promise<Due[]> => {
  const own = pg.escapeIdentifier(schema);
  const { rows } = await client.query<Due>(
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

/** @returns the block up to which all is summed up now */
const addChanges = async (client: Queries, schema: string, { chain_id, summed, final }: Due): Promise<string> => {
  const log = `${pg.escapeIdentifier(schema)}.delegation_change`;
  const { rows } = await client.query<{ block: string }>(
    // The tables in the order in which a reorg locks them.
    `with next as (
       select coalesce((
         select block_number from ${log}
         where chain_id = $2 and block_number > $3 and block_number <= $4
         order by block_number offset ${CHANGES_AT_ONCE} limit 1
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
       from change where ${OF_A_CONTRACT} group by 2, 3
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
