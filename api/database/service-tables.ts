import {
  INSUFFICIENT_PRIVILEGE,
  sqlState,
  UNDEFINED_COLUMN,
  UNDEFINED_SCHEMA,
  UNDEFINED_TABLE,
} from "./postgres-errors.ts";
import { databaseUnavailable } from "./problems.ts";

/** What a migration has yet to create, or an administrator to grant. */
const MISSING = [UNDEFINED_TABLE, UNDEFINED_SCHEMA, UNDEFINED_COLUMN, INSUFFICIENT_PRIVILEGE];

/** Rejects with a problem where a statement needs tables of the schema "service" that a migration has yet to create. */
export const requireTables = <Result>(
  result: Promise<Result>,
  detail = "The tables for this page do not exist yet. Try again in a moment.",
): Promise<Result> =>
  result.catch((error) => {
    throw MISSING.includes(sqlState(error) ?? "") ? databaseUnavailable(detail) : error;
  });
