import { and, desc, eq, ne, sql } from "drizzle-orm";
import { unionAll } from "drizzle-orm/pg-core";
import type { Address } from "viem";
import { FULL_RIGHTS } from "../../../registry/delegation.ts";
import type { RegistryVersion } from "../../../registry/networks.ts";
import { compile, type Database, preparedFor } from "../../database.ts";
import { delegationTable, indexTables } from "../../tables.ts";
import { type FreshnessColumns, whileServed } from "../freshness.ts";
import {
  delegationColumns,
  type ExplorerRow,
  FOUND,
  type Found,
  ONE_CHAIN,
  type Place,
  readFound,
  withBlock,
} from "./rows.ts";

export type Direction = "in" | "out";

const value = sql.placeholder;
const ORDER = sql`block_number desc, log_index desc`;

/** A page of a registry: a walk along an index for lists, from the place on, however many there are. */
const pageOf = (database: Database, schema: string, version: RegistryVersion, direction: Direction) => {
  const table = delegationTable(schema, version);
  // v1 knows full rights only, and no amounts.
  const { rights, amount } =
    version === "v2" ? indexTables(schema).delegationV2 : { rights: FULL, amount: sql.raw("0::numeric") };
  const columns = delegationColumns({ ...table, registry: sql.raw(`'${version}'`), rights, amount });
  const isIn = direction === "in";
  return database.db
    .select(columns)
    .from(table)
    .where(
      and(
        eq(table.chainId, value("chainId")),
        // The indexes for lists serve only statements that say this: see ponder.schema.ts.
        sql`${table.blockNumber} >= 0`,
        eq(isIn ? table.delegate : table.vault, value("wallet")),
        isIn ? undefined : ne(table.vault, table.delegate),
        sql`(${table.blockNumber}, ${table.logIndex}) < (${value("blockNumber")}::bigint, ${value("logIndex")}::int)`,
        whileServed(database, schema),
      ),
    )
    .orderBy(desc(table.blockNumber), desc(table.logIndex))
    .limit(value("limit"));
};

const FULL = sql.raw(`'${FULL_RIGHTS}'::text`);

export const activeStatement = (database: Database, schema: string, direction: Direction) => {
  const pages = [pageOf(database, schema, "v1", direction), pageOf(database, schema, "v2", direction)] as const;
  const query = withBlock(database, schema, {
    question: ONE_CHAIN,
    found: unionAll(...pages)
      .orderBy(ORDER)
      .limit(value("limit")),
    columns: FOUND,
    order: ORDER,
  });
  return compile<FreshnessColumns & ExplorerRow>(`${schema} explorer ${direction}`, query);
};

const statementFor = preparedFor(activeStatement);

/** A wallet's active delegations of both registries in one direction, those made last first. */
export const listActive = async (
  database: Database,
  question: { schema: string; chainId: number; wallet: Address; direction: Direction },
  limit: number,
  { blockNumber, logIndex }: Place,
): Promise<Found<ExplorerRow>> => {
  const { schema, chainId, wallet, direction } = question;
  const statement = statementFor(database, schema, direction);
  return readFound(await database.read("lists", statement, { chainId, wallet, blockNumber, logIndex, limit }));
};
