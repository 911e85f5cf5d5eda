import { and, desc, eq, sql } from "drizzle-orm";
import { union } from "drizzle-orm/pg-core";
import pg from "pg";
import type { Address } from "viem";
import { compile, type Database, preparedFor } from "../../database.ts";
import { notIndexed } from "../../problem.ts";
import { indexTables } from "../../tables.ts";
import { named } from "../columns.ts";
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

export type ExplorerChange = ExplorerRow & {
  ordinal: number;
  active: boolean;
  wasActive: boolean;
  event: string;
};

const UNDEFINED_COLUMN = "42703";

const value = sql.placeholder;
const ORDER = sql`block_number desc, log_index desc, ordinal desc`;

export const historyStatement = (database: Database, schema: string) => {
  const { delegationChange: change } = indexTables(schema);
  const { ordinal, active, wasActive, event } = change;
  const columns = { ...delegationColumns(change), ...named({ ordinal, active, was_active: wasActive, event }) };
  /** A page of the changes with the wallet at one end: a walk along that end's index, from the place on. */
  const pageOf = (end: "vault" | "delegate") =>
    database.db
      .select(columns)
      .from(change)
      .where(
        and(
          eq(change.chainId, value("chainId")),
          eq(change[end], value("wallet")),
          sql`(${change.blockNumber}, ${change.logIndex}, ${change.ordinal})
            < (${value("blockNumber")}::bigint, ${value("logIndex")}::int, ${value("ordinal")}::int)`,
          whileServed(database, schema),
        ),
      )
      .orderBy(desc(change.blockNumber), desc(change.logIndex), desc(change.ordinal))
      .limit(value("limit"));
  const query = withBlock(database, schema, {
    question: ONE_CHAIN,
    // What a wallet did to itself is at both ends, and told once: "union" leaves out what is there already.
    found: union(pageOf("vault"), pageOf("delegate")).orderBy(ORDER).limit(value("limit")),
    columns: {
      ...FOUND,
      ordinal: sql`found.ordinal`,
      active: sql`found.active`,
      wasActive: sql`found.was_active`,
      event: sql`found.event`,
    },
    order: ORDER,
  });
  return compile<FreshnessColumns & ExplorerChange>(`${schema} explorer history`, query);
};

const statementFor = preparedFor(historyStatement);

/** Every change of delegations from or to a wallet, in both registries, newest first. */
export const readHistory = async (
  database: Database,
  { schema, chainId, wallet }: { schema: string; chainId: number; wallet: Address },
  limit: number,
  after: Place,
): Promise<Found<ExplorerChange>> => {
  const values = { chainId, wallet, ...after, limit };
  const rows = await database.read("lists", statementFor(database, schema), values).catch((error) => {
    if (!(error instanceof pg.DatabaseError) || error.code !== UNDEFINED_COLUMN) throw error;
    throw notIndexed("The index that is served was made by an older version, and does not tell: a new one is needed.");
  });
  return readFound(rows);
};
