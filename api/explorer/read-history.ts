import { and, desc, eq, sql } from "drizzle-orm";
import { union } from "drizzle-orm/pg-core";
import type { Address } from "viem";
import { aliasColumns } from "../database/columns.ts";
import type { Database } from "../database/database.ts";
import { type FreshnessColumns, hasIndexedBlock } from "../database/freshness.ts";
import { compileStatement, memoizeByDatabase } from "../database/statement.ts";
import { indexTables } from "../database/tables.ts";
import {
  type ExplorerPosition,
  type ExplorerResult,
  type ExplorerRow,
  FOUND,
  ONE_CHAIN,
  readResult,
  selectDelegation,
  selectWithBlock,
} from "./explorer-rows.ts";

export type ExplorerChangeRow = ExplorerRow & {
  ordinal: number;
  active: boolean;
  wasActive: boolean;
  event: string;
};

const value = sql.placeholder;
const ORDER = sql`block_number desc, log_index desc, ordinal desc`;

export const historyStatement = (database: Database, schema: string) => {
  const { delegationChange: change } = indexTables(schema);
  const { ordinal, active, wasActive, event } = change;
  const columns = { ...selectDelegation(change), ...aliasColumns({ ordinal, active, was_active: wasActive, event }) };
  /** Selects a page of the changes with the wallet at one end, by that end's index, from the position on. */
  const selectPage = (end: "vault" | "delegate") =>
    database.db
      .select(columns)
      .from(change)
      .where(
        and(
          eq(change.chainId, value("chainId")),
          eq(change[end], value("wallet")),
          sql`(${change.blockNumber}, ${change.logIndex}, ${change.ordinal})
            < (${value("blockNumber")}::bigint, ${value("logIndex")}::int, ${value("ordinal")}::int)`,
          hasIndexedBlock(database, schema),
        ),
      )
      .orderBy(desc(change.blockNumber), desc(change.logIndex), desc(change.ordinal))
      .limit(value("limit"));
  const query = selectWithBlock(database, schema, {
    question: ONE_CHAIN,
    // A delegation to itself is at both ends: "union" removes the duplicate.
    found: union(selectPage("vault"), selectPage("delegate")).orderBy(ORDER).limit(value("limit")),
    columns: {
      ...FOUND,
      ordinal: sql`found.ordinal`,
      active: sql`found.active`,
      wasActive: sql`found.was_active`,
      event: sql`found.event`,
    },
    order: ORDER,
  });
  return compileStatement<FreshnessColumns & ExplorerChangeRow>(`${schema} explorer history`, query);
};

const findHistoryStatement = memoizeByDatabase(historyStatement);

/** Reads the changes of delegations from or to a wallet, in both registries, newest first. */
export const readHistory = async (
  database: Database,
  { schema, chainId, wallet }: { schema: string; chainId: number; wallet: Address },
  limit: number,
  after: ExplorerPosition,
): Promise<ExplorerResult<ExplorerChangeRow>> => {
  const values = { chainId, wallet, ...after, limit };
  return readResult(await database.read("lists", findHistoryStatement(database, schema), values));
};
