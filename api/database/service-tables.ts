import { Problem } from "../problem.ts";
import { INSUFFICIENT_PRIVILEGE, sqlState, UNDEFINED_COLUMN } from "./postgres-errors.ts";
import { databaseUnavailable } from "./problems.ts";

/** Recognizes the error of a table or column in the schema "service" that does not exist, or that we may not use, yet. */
export const isTableMissing = (error: unknown): boolean => {
  const code = sqlState(error);
  const isUnknownTable = error instanceof Problem && error.problem === "not-indexed";
  return isUnknownTable || code === UNDEFINED_COLUMN || code === INSUFFICIENT_PRIVILEGE;
};

/** Rejects with a problem where a statement needs tables of the schema "service" that a migration has yet to create. */
export const requireTables = <Result>(result: Promise<Result>): Promise<Result> =>
  result.catch((error) => {
    if (!isTableMissing(error)) throw error;
    throw databaseUnavailable("The tables for this page do not exist yet. Try again in a moment.");
  });
