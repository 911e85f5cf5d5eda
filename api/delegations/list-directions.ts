import { and, eq, ne, type Placeholder, type SQL, sql } from "drizzle-orm";
import type { Address } from "viem";
import { FULL_RIGHTS } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import { keyColumns, selectLatestChange } from "../../registry/state-at.ts";
import { aliasColumns } from "../database/columns.ts";
import type { Database } from "../database/database.ts";
import type { FreshnessColumns } from "../database/freshness.ts";
import { delegationTable, indexTables } from "../database/tables.ts";
import type { Moment } from "./check-delegation.ts";

/** Values of the column `direction`: incoming delegations sort first. */
export const INCOMING = 0;
export const OUTGOING = 1;

/** A row as Postgres sends it, with numbers as digits. A row without a direction has the block only, and no delegation. */
export type ListRow = FreshnessColumns & {
  /** With several lists in one statement: the number of the row's list, from 1. */
  list?: string;
  direction: number | null;
  blockNumber: string;
  logIndex: number;
  type: string;
  /** The wallet at the other end. */
  other: Address;
  contract: Address;
  tokenId: string;
  rights?: string;
  amount?: string;
  blockTimestamp?: string;
  /** Present with all details. */
  transactionHash?: string;
  /** At a past block: false for a row that only tells how far the log was read. */
  isListed?: boolean;
  /** At a past block: true if the log was not read beyond this row. */
  isLastRead?: boolean;
};

/** Lists of the same kind share a statement. */
export type ListKind = {
  schema: string;
  version: RegistryVersion;
  hasDetails: boolean;
  moment: Moment;
};

export type Direction = typeof INCOMING | typeof OUTGOING;

/** A wallet's rows after a position, up to a limit. At a past block, the limit is the number of changes to read. */
export type ListRange = {
  chainId: SQL;
  wallet: SQL;
  block: SQL;
  after?: SQL;
  limit: number | Placeholder;
  /** A condition without which nothing is read. */
  canRead: SQL;
};

/** v1 has full rights only, and no amounts. */
const V1_DETAILS = { rights: sql.raw(`'${FULL_RIGHTS}'::text`), amount: sql.raw("0::numeric") };

/** Selects one direction of a wallet's active delegations, oldest first. */
const selectActiveDirection = (
  database: Database,
  { schema, version, hasDetails }: ListKind,
  direction: Direction,
  { chainId, wallet, after, limit, canRead }: ListRange,
) => {
  const { delegationV2 } = indexTables(schema);
  const table = delegationTable(schema, version);
  const [own, other] = direction === INCOMING ? [table.delegate, table.vault] : [table.vault, table.delegate];
  const ofVersion = version === "v2" ? { rights: delegationV2.rights, amount: delegationV2.amount } : V1_DETAILS;
  const details = { ...ofVersion, blockTimestamp: table.blockTimestamp, transactionHash: table.transactionHash };
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
        canRead,
      ),
    )
    .orderBy(table.blockNumber, table.logIndex)
    .limit(limit);
};

/**
 * Selects one direction of a wallet's delegations at a past block, from the log: each change that made one, if the
 * delegation's latest change up to the block left it active, and no later change made it anew. A limit bounds the changes
 * that are read: strangers can add any number to a wallet's log.
 */
const selectPastDirection = (
  database: Database,
  { schema, version, hasDetails }: ListKind,
  direction: Direction,
  { chainId, wallet, block, after, limit, canRead }: ListRange,
) => {
  const { delegationChange: change } = indexTables(schema);
  const own = direction === INCOMING ? change.delegate : change.vault;
  const changes = sql`(
    select *, row_number() over (order by block_number, log_index, ordinal) as number from (
      select *, ${block}::bigint as asked_block from ${change}
      where ${and(
        eq(change.chainId, chainId),
        eq(own, wallet),
        sql`${change.blockNumber} <= ${block}::bigint`,
        after && sql`(${change.blockNumber}, ${change.logIndex}) > (${after})`,
        canRead,
      )}
      order by block_number, log_index, ordinal limit ${limit}
    ) changes) as made`;
  const log = `"${schema}".delegation_change`;
  const isMade = `made.active and not made.was_active and made.registry = '${version}'`;
  // A delegation to itself is listed once, as incoming.
  const condition = direction === OUTGOING ? `${isMade} and made.vault <> made.delegate` : isMade;
  const latest = selectLatestChange(log, keyColumns("made."), { block: "made.asked_block", condition });
  const isListed = sql`coalesce(latest.active and (latest.made_block, latest.made_log_index) = (made.block_number, made.log_index), false)`;
  const isLastRead = sql`coalesce(made.number = ${limit}, false)`;
  const details = {
    rights: sql`made.rights`,
    amount: sql`latest.amount`,
    blockTimestamp: sql`made.block_timestamp`,
    transactionHash: sql`made.transaction_hash`,
  };
  return database.db
    .select(
      aliasColumns({
        direction: sql.raw(String(direction)),
        blockNumber: sql`made.block_number`,
        logIndex: sql`made.log_index`,
        type: sql`made.type`,
        other: direction === INCOMING ? sql`made.vault` : sql`made.delegate`,
        contract: sql`made.contract`,
        tokenId: sql`made.token_id`,
        ...(hasDetails && details),
        isListed,
        isLastRead,
      }),
    )
    .from(changes)
    .leftJoinLateral(sql`${sql.raw(latest)} as latest`, sql`true`)
    .where(sql`${isListed} or ${isLastRead}`);
};

/** Selects one direction of a wallet's list, oldest first. */
export const selectDirection = (database: Database, kind: ListKind, direction: Direction, range: ListRange) =>
  kind.moment === "now"
    ? selectActiveDirection(database, kind, direction, range)
    : selectPastDirection(database, kind, direction, range);
