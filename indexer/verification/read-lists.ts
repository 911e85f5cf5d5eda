import type { Address } from "viem";
import { zeroHash } from "viem";
import { FULL_RIGHTS } from "../../registry/delegation.ts";
import { selectActiveAt } from "../../registry/state-at.ts";
import { quoteTable } from "../shards/ponder-tables.ts";
import type { Queryable } from "../shards/queryable.ts";
import type { Delegation, Side } from "./delegation.ts";
import type { AskedList, Block } from "./registry-reader.ts";

/** Anybody can make a wallet's list longer than a node can return it. Longer ones are not compared. */
const MAX_ROWS = 1_000;

export type IndexedList = AskedList & { delegations: Delegation[] };

/** The lists of some wallets at a block of the index. */
export type IndexedLists = { block: Block; lists: IndexedList[] };

type Row = {
  registry: "v1" | "v2";
  side: Side;
  wallet: Address;
  rows: (Omit<Delegation, "registry" | "tokenId" | "amount"> & { tokenId: string; amount: string })[] | null;
};

const COLUMNS = {
  v1: `'type', type, 'vault', vault, 'delegate', delegate, 'contract', contract, 'tokenId', token_id::text,
    'rights', '${FULL_RIGHTS}', 'amount', '0'`,
  v2: `'type', type, 'vault', vault, 'delegate', delegate, 'contract', contract, 'tokenId', token_id::text,
    'rights', rights, 'amount', amount::text`,
};

/** SQL for the lists of the wallets $2. The conditions fit the indexes for lists, and the primary key. */
const selectLists = (schema: string): string => {
  const parts = (["v1", "v2"] as const).flatMap((registry) => {
    const from = `from ${quoteTable(schema, `delegation_${registry}`)} where chain_id = $1`;
    const outgoing = `(select * ${from} and vault = wallet and vault <> delegate and block_number >= 0 limit ${MAX_ROWS + 1})
      union all (select * ${from} and vault = wallet and delegate = wallet)`;
    const incoming = `(select * ${from} and delegate = wallet and block_number >= 0 limit ${MAX_ROWS + 1})`;
    return Object.entries({ outgoing, incoming }).map(
      ([side, rows]) =>
        `select '${registry}' as registry, '${side}' as side, wallet, (
           select json_agg(json_build_object(${COLUMNS[registry]})) from (${rows}) row
         ) as rows from unnest($2::text[]) asked (wallet)`,
    );
  });
  return parts.join(" union all ");
};

/** Reads the lists of wallets and their block, in one statement. @returns null while the index has no block of the chain */
export const readIndexedLists = async (
  client: Queryable,
  schema: string,
  chainId: number,
  wallets: readonly Address[],
): Promise<IndexedLists | null> => {
  const { rows } = await client.query<Row & { number: string; hash: Block["hash"] }>(
    `select block.number, block.hash, list.* from ${quoteTable(schema, "indexed_block")} block
     cross join (${selectLists(schema)}) list
     where block.chain_id = $1 and block.hash <> '${zeroHash}'`,
    [chainId, wallets],
  );
  const [first] = rows;
  if (!first) return null;
  return { block: { number: BigInt(first.number), hash: first.hash }, lists: rows.flatMap(parseList) };
};

/** Reads the lists of a wallet at a past block, from the log. */
export const readPastLists = async (
  client: Queryable,
  schema: string,
  { chainId, wallet, block }: { chainId: number; wallet: Address; block: number },
): Promise<IndexedList[]> => {
  const log = quoteTable(schema, "delegation_change");
  const active = selectActiveAt(log, "chain_id = $1 and block_number <= $3 and (vault = $2 or delegate = $2)");
  const { rows } = await client.query<Row>(
    `select registry, side, $2 as wallet, (
       select json_agg(json_build_object(${COLUMNS.v2})) from ${active} row
       where row.registry = asked.registry and case side when 'outgoing' then vault else delegate end = $2
     ) as rows
     from unnest(array['v1', 'v1', 'v2', 'v2'], array['outgoing', 'incoming', 'outgoing', 'incoming']) asked (registry, side)`,
    [chainId, wallet, block],
  );
  return rows.flatMap(parseList);
};

const parseList = ({ registry, side, wallet, rows }: Row): IndexedList[] => {
  if (rows && rows.length > MAX_ROWS) return [];
  const delegations = (rows ?? []).map((row) => ({
    ...row,
    registry,
    tokenId: BigInt(row.tokenId),
    amount: BigInt(row.amount),
  }));
  return [{ registry, side, wallet, delegations }];
};
