import { eq, sql } from "drizzle-orm";
import { unionAll } from "drizzle-orm/pg-core";
import type { Address } from "viem";
import { findStart, type Position } from "../contract/paging.ts";
import { aliasColumns, nullColumns, pickColumns } from "../database/columns.ts";
import type { Database } from "../database/database.ts";
import { hasIndexedBlock, selectFreshness } from "../database/freshness.ts";
import { compileStatement, type Statement } from "../database/statement.ts";
import { indexTables } from "../database/tables.ts";
import { INCOMING, type ListKind, type ListRow, OUTGOING, selectDirection } from "./list-directions.ts";

export const nameKind = ({ schema, version, hasDetails, moment }: ListKind) =>
  `${schema} ${version} list${hasDetails ? " with details" : ""}${moment === "now" ? "" : " at a block"}`;

const ORDER = sql`"direction" nulls first, "blockNumber", "logIndex"`;

const value = sql.placeholder;

/** Selects a wallet's delegations after a position. The first row has the block. */
export const listStatement = (database: Database, kind: ListKind): Statement<ListRow> => {
  const { db } = database;
  const { indexedBlock } = indexTables(kind.schema);
  const range = {
    chainId: sql`${value("chainId")}`,
    wallet: sql`${value("wallet")}`,
    block: sql`${value("block")}`,
    limit: value("limit"),
    // Postgres evaluates this once in a statement, not for each wallet.
    canRead: sql.raw(hasIndexedBlock(kind.schema)),
  };
  const incoming = selectDirection(database, kind, INCOMING, {
    ...range,
    after: sql`${value("incomingBlock")}::bigint, ${value("incomingLog")}::int`,
  });
  const outgoing = selectDirection(database, kind, OUTGOING, {
    ...range,
    after: sql`${value("outgoingBlock")}::bigint, ${value("outgoingLog")}::int`,
  });
  const list = unionAll(incoming, outgoing).as("list");
  const columns = Object.keys(list._.selectedFields);
  const freshness = selectFreshness(indexedBlock);
  // The tables in the order in which a reorg locks them.
  const query = unionAll(
    db.select({ ...nullColumns(Object.keys(freshness)), ...pickColumns(list, columns) }).from(list),
    db
      .select({ ...freshness, ...nullColumns(columns) })
      .from(sql`(values (${value("chainId")}::bigint)) as q (chain_id)`)
      .leftJoin(indexedBlock, eq(indexedBlock.chainId, sql`q.chain_id`)),
  );
  return compileStatement(nameKind(kind), query.orderBy(ORDER).limit(value("rows")));
};

/** Changes that a page at a past block reads in each direction: it may have fewer delegations than asked for. */
const countChanges = (limit: number) => Math.max(500, 4 * limit);

/** Values of listStatement(). @param limit - null: the whole list */
export const listValues = (
  { chainId, wallet, block }: { chainId: number; wallet: Address; block?: string | undefined },
  limit: number | null,
  after?: Position,
) => {
  const [incomingBlock, incomingLog] = findStart([INCOMING], after);
  const [outgoingBlock, outgoingLog] = findStart([OUTGOING], after);
  return {
    chainId,
    wallet,
    incomingBlock,
    incomingLog,
    outgoingBlock,
    outgoingLog,
    block,
    limit: limit !== null && block !== undefined ? countChanges(limit) : limit,
    // Besides the delegations: the row with the block, and at a past block the last one that was read in each direction.
    rows: limit === null ? null : limit + 3,
  };
};

/** Maximum delegations of a list that is read together with others. */
export const MAX_SHORT_LIST = 20;

/**
 * Selects the lists of several wallets, in their order. A list with one row more than the maximum is incomplete, and at a
 * past block one with a row that was the last to be read.
 */
export const shortListsStatement = (database: Database, kind: ListKind): Statement<ListRow> => {
  const { indexedBlock } = indexTables(kind.schema);
  const range = {
    chainId: sql`q.chain_id`,
    wallet: sql`q.wallet`,
    block: sql`q.block`,
    limit: MAX_SHORT_LIST + 1,
    canRead: sql.raw(hasIndexedBlock(kind.schema)),
  };
  const list = unionAll(
    selectDirection(database, kind, INCOMING, range),
    selectDirection(database, kind, OUTGOING, range),
  ).as("list");
  // The tables in the order in which a reorg locks them.
  const query = database.db
    .select({
      ...aliasColumns({ list: sql`q.position` }),
      ...selectFreshness(indexedBlock),
      ...pickColumns(list, Object.keys(list._.selectedFields)),
    })
    .from(
      sql`unnest(${value("chainIds")}::bigint[], ${value("wallets")}::text[], ${value("blocks")}::bigint[])
        with ordinality as q (chain_id, wallet, block, position)`,
    )
    .leftJoinLateral(list, sql`true`)
    .leftJoin(indexedBlock, eq(indexedBlock.chainId, sql`q.chain_id`))
    .orderBy(sql`q.position, ${ORDER}`);
  return compileStatement(`${nameKind(kind)}s`, query);
};
