import { and, eq, ne, type Placeholder, type SQL, sql } from "drizzle-orm";
import { unionAll } from "drizzle-orm/pg-core";
import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import { aliasColumns, nullColumns, pickColumns } from "../database/columns.ts";
import type { Database } from "../database/database.ts";
import { hasIndexedBlock, selectFreshness } from "../database/freshness.ts";
import { compileStatement, type Statement } from "../database/statement.ts";
import { delegationTable, indexTables } from "../database/tables.ts";
import { INCOMING, type ListPosition, type ListRow, OUTGOING } from "./list-rows.ts";

/** Lists of the same kind share a statement. */
type ListKind = { schema: string; version: RegistryVersion; hasDetails: boolean };

export const nameList = ({ schema, version, hasDetails }: ListKind) =>
  `${schema} ${version} list${hasDetails ? " with details" : ""}`;

const ORDER = sql`"direction" nulls first, "blockNumber", "logIndex"`;

const value = sql.placeholder;

/** A wallet's rows after a position, up to a limit. */
type Range = { chainId: SQL; wallet: SQL; after?: SQL; limit: number | Placeholder };

/** Selects one direction of a wallet's delegations, oldest first. */
const selectDirection = (
  database: Database,
  { schema, version, hasDetails }: ListKind,
  direction: typeof INCOMING | typeof OUTGOING,
  { chainId, wallet, after, limit }: Range,
) => {
  const { delegationV2 } = indexTables(schema);
  const table = delegationTable(schema, version);
  const [own, other] = direction === INCOMING ? [table.delegate, table.vault] : [table.vault, table.delegate];
  const v2Details = version === "v2" && { rights: delegationV2.rights, amount: delegationV2.amount };
  const details = { ...v2Details, blockTimestamp: table.blockTimestamp, transactionHash: table.transactionHash };
  return database.db
    .select(
      aliasColumns({
        direction: sql.raw(String(direction)),
        blockNumber: table.blockNumber,
        logIndex: table.logIndex,
        type: table.type,
        other,
        contract: table.contract,
        tokenId: table.tokenId,
        ...(hasDetails && details),
      }),
    )
    .from(table)
    .where(
      and(
        eq(table.chainId, chainId),
        eq(own, wallet),
        // The indexes for lists serve only statements with this condition: see ponder.schema.ts.
        sql`${table.blockNumber} >= 0`,
        // A delegation to itself is listed once, as incoming.
        direction === OUTGOING ? ne(table.vault, table.delegate) : undefined,
        after && sql`(${table.blockNumber}, ${table.logIndex}) > (${after})`,
        // Postgres evaluates this once in a statement, not for each wallet.
        hasIndexedBlock(database, schema),
      ),
    )
    .orderBy(table.blockNumber, table.logIndex)
    .limit(limit);
};

/** Selects a wallet's delegations after a position. The first row has the block. */
export const listStatement = (database: Database, kind: ListKind): Statement<ListRow> => {
  const { db } = database;
  const { indexedBlock } = indexTables(kind.schema);
  const range = { chainId: sql`${value("chainId")}`, wallet: sql`${value("wallet")}`, limit: value("limit") };
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
  return compileStatement(nameList(kind), query.orderBy(ORDER).limit(value("rows")));
};

/** Before the first event, and after the last. */
const START = { block: "-1", log: "-1" };
const END = { block: "9223372036854775807", log: "0" };

/** Values of listStatement(). @param limit - null: the whole list */
export const listValues = (
  { chainId, wallet }: { chainId: number; wallet: Address },
  limit: number | null,
  after?: ListPosition,
) => {
  const position = after ? { block: after.blockNumber, log: after.logIndex } : START;
  const [incoming, outgoing] = after?.direction === "outgoing" ? [END, position] : [position, START];
  return {
    chainId,
    wallet,
    incomingBlock: incoming.block,
    incomingLog: incoming.log,
    outgoingBlock: outgoing.block,
    outgoingLog: outgoing.log,
    limit,
    rows: limit === null ? null : limit + 1,
  };
};

/** Maximum delegations of a list that is read together with others. */
export const MAX_SHORT_LIST = 20;

/** Selects the lists of several wallets, in their order. A list with one row more than the maximum is incomplete. */
export const shortListsStatement = (database: Database, kind: ListKind): Statement<ListRow> => {
  const { indexedBlock } = indexTables(kind.schema);
  const range = { chainId: sql`q.chain_id`, wallet: sql`q.wallet`, limit: MAX_SHORT_LIST + 1 };
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
      sql`unnest(${value("chainIds")}::bigint[], ${value("wallets")}::text[]) with ordinality as q (chain_id, wallet, position)`,
    )
    .leftJoinLateral(list, sql`true`)
    .leftJoin(indexedBlock, eq(indexedBlock.chainId, sql`q.chain_id`))
    .orderBy(sql`q.position, ${ORDER}`);
  return compileStatement(`${nameList(kind)}s`, query);
};
