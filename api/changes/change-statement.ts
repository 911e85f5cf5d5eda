import { sql } from "drizzle-orm";
import { hasIndexedBlock } from "../database/freshness.ts";
import { memoize } from "../database/memoize.ts";
import { compileStatement } from "../database/statement.ts";
import { HAS_MADE_BLOCK } from "../wallets/network-statement.ts";
import { CHANGE_COLUMNS, type ChangeRow } from "../wallets/wallet-json.ts";

/** By which index the log is read. */
export type ReadBy = "log" | "vault" | "delegate" | "wallet";

type BlockRow = {
  place: string;
  isChange: false;
  indexedBlock: string | null;
  indexedBlockTimestamp: string | null;
  finalizedBlock: string | null;
  finalizedBlockTimestamp: string | null;
  /** Blocks with changes by number, and the digest of each: those that are not final, and those that the reader knows. */
  blocks: Record<string, string> | null;
};

/** A change, or the last one that was read, which need not be listed. */
export type FoundChange = ChangeRow & { place: string; isChange: true };

type Row = BlockRow | FoundChange;

const NETWORK_VALUES = {
  chain_id: "bigint",
  /** The position to read from; null for the last block before `since`. */
  after_block: "bigint",
  after_log: "bigint",
  after_ordinal: "bigint",
  /** The final block of that position. */
  final_block: "bigint",
  /** The last block to read; null for the newest. */
  to_block: "bigint",
};

const FILTERS = ["registry", "wallet", "vault", "delegate", "contract", "type"] as const;

const IN_ORDER = "d.block_number, d.log_index, d.ordinal";

/** Hash of all that readers see of a block's changes. Blocks with the same one are the same to them. */
const DIGEST = `encode(sha256(string_agg(sha256(convert_to(concat_ws('|', ${Object.values(CHANGE_COLUMNS)
  .map((column) => `d.${column}`)
  .join(", ")}), 'UTF8')), ''::bytea order by d.log_index, d.ordinal)), 'hex')`;

/**
 * Reads changes of several networks in the order of each network's log, up to a number of rows over all of them, and the
 * block of each network: one snapshot. Networks are read one after the other, in the order given.
 */
const createStatement = ({ schema, by }: { schema: string; by: ReadBy }) => {
  const log = `"${schema}".delegation_change`;
  const block = `"${schema}".indexed_block`;
  const columns = Object.entries(CHANGE_COLUMNS);
  const bind = (name: string, type: string) => sql`${sql.placeholder(name)}::${sql.raw(type)}`;
  const isFinal = bind("is_final", "boolean");
  /** The last block of a network to read. Null while the index cannot answer for it: then nothing is read. */
  const last = sql`(
    select least(q.to_block, case when ${isFinal} then b.finalized_number else b.number end)
    from ${sql.raw(block)} b where b.chain_id = q.chain_id)`;
  const hasWallet = (end: "vault" | "delegate", name: string) =>
    sql`d.${sql.raw(end)} = ${bind(name, "text")} and ${sql.raw(HAS_MADE_BLOCK)}`;
  const select = (condition: ReturnType<typeof sql>) => sql`(
    select ${sql.raw(columns.map(([, column]) => `d.${column}`).join(", "))}
    from ${sql.raw(log)} d
    where d.chain_id = q.chain_id and ${condition}
      and (${sql.raw(IN_ORDER)}) > (q.start_block, q.after_log, q.after_ordinal)
      and d.block_number <= ${last} and ${sql.raw(hasIndexedBlock(schema))}
    order by ${sql.raw(IN_ORDER)} limit ${bind("rows", "bigint")})`;
  const selections = {
    log: () => select(sql`true`),
    vault: () => select(hasWallet("vault", "vault")),
    delegate: () => select(hasWallet("delegate", "delegate")),
    // A delegation to itself is at both ends: "union" removes the duplicate.
    wallet: () => sql`(
      ${select(hasWallet("vault", "wallet"))} union ${select(hasWallet("delegate", "wallet"))}
      order by block_number, log_index, ordinal limit ${bind("rows", "bigint")})`,
  };
  const [registry, wallet, vault, delegate, contract, type] = FILTERS.map((name) => bind(name, "text"));
  const isListed = sql`(${registry} is null or f.registry = ${registry})
    and (${wallet} is null or f.vault = ${wallet} or f.delegate = ${wallet})
    and (${vault} is null or f.vault = ${vault}) and (${delegate} is null or f.delegate = ${delegate})
    and (${contract} is null or f.contract = ${contract} and f.type <> 'ALL')
    and (${type} is null or ${type} = case when f.type in ('ALL', 'CONTRACT') then f.type else 'TOKEN' end)`;
  const blockColumns =
    '"indexedBlock", null::bigint as "indexedBlockTimestamp", null::bigint as "finalizedBlock", null::bigint as "finalizedBlockTimestamp", null::json as "blocks"';
  const arrays = Object.entries(NETWORK_VALUES).map(([name, type]) => bind(name, `${type}[]`));
  const digests = (condition: ReturnType<typeof sql>) => sql`
    select d.block_number, ${sql.raw(DIGEST)} as digest from ${sql.raw(log)} d
    where d.chain_id = q.chain_id and ${condition} group by d.block_number`;

  // The tables in the order in which a reorg locks them: the block's comes last.
  const query = sql`
    with asked as materialized (
      select q.*, coalesce(q.after_block, (
        select d.block_number from ${sql.raw(log)} d
        where d.chain_id = q.chain_id and d.block_timestamp <= ${bind("since", "bigint")}
          and ${sql.raw(hasIndexedBlock(schema))}
        order by d.block_timestamp desc, d.block_number desc limit 1), -1) as start_block
      from unnest(${sql.join(arrays, sql`, `)}) with ordinality
        as q (${sql.raw(Object.keys(NETWORK_VALUES).join(", "))}, place)
    )
    select f.place, true as "isChange", f.chain_id as "chainId", f.number, ${isListed} as "isListed",
      ${sql.raw(columns.map(([name, column]) => `f.${column} as "${name}"`).join(", "))},
      null::bigint as ${sql.raw(blockColumns)}
    from (
      select q.place, q.chain_id, found.*, row_number() over () as number
      from asked q cross join lateral ${selections[by]()} found
      limit ${bind("rows", "bigint")}
    ) f
    where f.number = ${bind("rows", "bigint")} or (${isListed})
    union all
    select q.place, false, q.chain_id, null, null, ${sql.raw(columns.map(() => "null").join(", "))},
      b.number, b.timestamp, b.finalized_number, b.finalized_timestamp, (
        select json_object_agg(w.block_number, w.digest) from (
          ${digests(sql`d.block_number > q.final_block and d.block_number <= q.start_block`)}
          union
          ${digests(sql`d.block_number > b.finalized_number and d.block_number <= least(q.to_block, b.number)`)}
        ) w where not ${isFinal})
    from asked q left join ${sql.raw(block)} b on b.chain_id = q.chain_id`;
  return compileStatement<Row>(`${schema} changes by ${by}`, query);
};

export const changesStatement = memoize(createStatement, ({ schema, by }) => `${schema} ${by}`);
