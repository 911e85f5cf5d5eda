import { sql } from "drizzle-orm";
import type { End } from "../../registry/state-at.ts";
import type { Position } from "../contract/paging.ts";
import { hasIndexedBlock } from "../database/freshness.ts";
import { memoize } from "../database/memoize.ts";
import type { Moment } from "../delegations/check-delegation.ts";
import { HAS_MADE_BLOCK, networksStatement } from "./network-statement.ts";
import { CHANGE_COLUMNS, type ChangeRow, showWalletChange } from "./wallet-json.ts";
import { countRowsToRead, type ListValues, type WalletList } from "./wallet-list.ts";
import type { NetworkValues } from "./wallet-parameters.ts";

const NEWEST_FIRST = "block_number desc, log_index desc, ordinal desc";

/** The position before which a network's part of a page starts: exact, or after the last change up to a time. */
const BEFORE = { before_block: "bigint", before_log: "bigint", before_ordinal: "bigint", before_time: "bigint" };

type HistoryKind = { schema: string; registry: NetworkValues["registry"]; moment: Moment };

const nameStatement = ({ registry, moment }: Omit<HistoryKind, "schema">) => `history, ${registry}, ${moment}`;

export const historyStatement = ({ schema, registry, moment }: HistoryKind) => {
  const log = `"${schema}".delegation_change`;
  const columns = Object.values(CHANGE_COLUMNS);
  const isListed = registry === "both" ? "true" : `q.registry = '${registry}'`;
  /** Selects the changes with the wallet at one end, by that end's index. */
  const selectEnd = (end: End) => `(
    select ${columns.map((column) => `d.${column}`).join(", ")}
    from ${log} d
    where d.chain_id = q.chain_id and d.${end} = q.wallet
      and (d.block_number, d.log_index, d.ordinal) < (start.at_block, q.before_log, q.before_ordinal)
      ${moment === "past" ? "and d.block_number <= q.block" : ""}
      and ${HAS_MADE_BLOCK} and ${hasIndexedBlock(schema)}
    order by ${NEWEST_FIRST} limit q.rows)`;
  const from = `(
      select q.chain_id, q.rows, found.*,
        row_number() over (order by found.block_timestamp desc, q.chain_id, ${NEWEST_FIRST}) as number
      from network q
      cross join lateral (
        select coalesce(q.before_block, (
          select d.block_number + 1 from ${log} d
          where d.chain_id = q.chain_id and d.block_timestamp <= q.before_time and ${hasIndexedBlock(schema)}
          order by d.block_timestamp desc, d.block_number desc limit 1)) as at_block
      ) start
      cross join lateral (
        -- A delegation to itself is at both ends: "union" removes the duplicate.
        ${selectEnd("vault")} union ${selectEnd("delegate")} order by ${NEWEST_FIRST} limit q.rows
      ) found
    ) q
    where q.number <= q.rows and (${isListed} or q.number = q.rows)`;
  return networksStatement<ChangeRow>(nameStatement({ registry, moment }), {
    schema,
    moment,
    values: { wallet: "text", rows: "bigint" },
    networkValues: BEFORE,
    from: sql.raw(from),
    columns: {
      ...Object.fromEntries(Object.entries(CHANGE_COLUMNS).map(([name, column]) => [name, `q.${column}`])),
      number: "q.number",
      isListed,
    },
  });
};

const findStatement = memoize(historyStatement, (kind) => `${kind.schema} ${nameStatement(kind)}`);

const NEWEST = { before_block: "9223372036854775807", before_log: "0", before_ordinal: "0", before_time: null };

/** Changes are ordered by time first: on all chains but the last one of the page before, a page starts at a time. */
const startBefore = (chainId: number, after: Position | undefined) => {
  if (!after) return NEWEST;
  const [lastTime = "", lastChainId, before_block, before_log, before_ordinal] = after;
  if (chainId === Number(lastChainId)) return { before_block, before_log, before_ordinal, before_time: null };
  // Of changes at the same time, those of lower chains are before it.
  const time = BigInt(lastTime) - (chainId < Number(lastChainId) ? 1n : 0n);
  return { before_block: null, before_log: "0", before_ordinal: "0", before_time: String(time) };
};

const addPosition = (row: ChangeRow) => {
  const { blockTimestamp, chainId, blockNumber, logIndex, ordinal } = row;
  return Object.assign(row, { position: [blockTimestamp, chainId, blockNumber, logIndex, ordinal].map(String) });
};

/** The changes of a wallet's delegations: by time, chain, block, log index and ordinal. */
export const history: WalletList<ListValues, ChangeRow, ReturnType<typeof addPosition>> = {
  order: ["descending", "ascending", "descending", "descending", "descending"],
  plan: ({ wallet, registry, limit, cursor }) => ({
    findStatement: (schema, moment) => findStatement({ schema, registry, moment }),
    // Changes of the other registry are read too: strangers can add any number.
    values: { wallet, rows: registry === "both" ? limit + 1 : countRowsToRead(limit) },
    startOf: (chainId) => startBefore(chainId, cursor?.position),
  }),
  collect: (rows) => rows.map(addPosition),
  show: (change, { wallet }) => showWalletChange(change, wallet),
};
