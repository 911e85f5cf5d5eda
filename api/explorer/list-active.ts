import { and, desc, eq, ne, sql } from "drizzle-orm";
import { unionAll } from "drizzle-orm/pg-core";
import type { Address } from "viem";
import { FULL_RIGHTS } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import type { Database } from "../database/database.ts";
import { type FreshnessColumns, hasIndexedBlock } from "../database/freshness.ts";
import { compileStatement, memoizeByDatabase } from "../database/statement.ts";
import { delegationTable, indexTables } from "../database/tables.ts";
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

export type Direction = "in" | "out";

const value = sql.placeholder;
const ORDER = sql`block_number desc, log_index desc`;

/** Selects a page of a registry by an index for lists, from the position on: the cost does not depend on the list's length. */
const selectPage = (database: Database, schema: string, version: RegistryVersion, direction: Direction) => {
  const table = delegationTable(schema, version);
  // v1 has full rights only, and no amounts.
  const { rights, amount } =
    version === "v2" ? indexTables(schema).delegationV2 : { rights: FULL, amount: sql.raw("0::numeric") };
  const columns = selectDelegation({ ...table, registry: sql.raw(`'${version}'`), rights, amount });
  const isIn = direction === "in";
  return database.db
    .select(columns)
    .from(table)
    .where(
      and(
        eq(table.chainId, value("chainId")),
        // The indexes for lists serve only statements with this condition: see ponder.schema.ts.
        sql`${table.blockNumber} >= 0`,
        eq(isIn ? table.delegate : table.vault, value("wallet")),
        isIn ? undefined : ne(table.vault, table.delegate),
        sql`(${table.blockNumber}, ${table.logIndex}) < (${value("blockNumber")}::bigint, ${value("logIndex")}::int)`,
        hasIndexedBlock(database, schema),
      ),
    )
    .orderBy(desc(table.blockNumber), desc(table.logIndex))
    .limit(value("limit"));
};

const FULL = sql.raw(`'${FULL_RIGHTS}'::text`);

export const activeStatement = (database: Database, schema: string, direction: Direction) => {
  const pages = [selectPage(database, schema, "v1", direction), selectPage(database, schema, "v2", direction)] as const;
  const query = selectWithBlock(database, schema, {
    question: ONE_CHAIN,
    found: unionAll(...pages)
      .orderBy(ORDER)
      .limit(value("limit")),
    columns: FOUND,
    order: ORDER,
  });
  return compileStatement<FreshnessColumns & ExplorerRow>(`${schema} explorer ${direction}`, query);
};

const findActiveStatement = memoizeByDatabase(activeStatement);

/** Lists a wallet's active delegations of both registries in one direction, newest first. */
export const listActive = async (
  database: Database,
  question: { schema: string; chainId: number; wallet: Address; direction: Direction },
  limit: number,
  { blockNumber, logIndex }: ExplorerPosition,
): Promise<ExplorerResult<ExplorerRow>> => {
  const { schema, chainId, wallet, direction } = question;
  const statement = findActiveStatement(database, schema, direction);
  return readResult(await database.read("lists", statement, { chainId, wallet, blockNumber, logIndex, limit }));
};
