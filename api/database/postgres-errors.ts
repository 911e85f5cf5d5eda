import pg from "pg";
import { notIndexed, type Problem } from "../problem.ts";
import { overloaded } from "./problems.ts";

// SQLSTATE codes of Postgres.
const DEADLOCK = "40P01";
/** A replica cancels a statement whose rows it has to remove to continue its replay. */
const RECOVERY_CONFLICT = "40001";
/** A view changed after the statement was prepared. */
const PLAN_CHANGED = "0A000";
/** Postgres closes the connection. */
const ADMIN_SHUTDOWN = "57P01";
const STATEMENT_TIMEOUT = "57014";
export const UNDEFINED_TABLE = "42P01";
export const UNDEFINED_SCHEMA = "3F000";
/** A name that Postgres reports as unknown: a table of this service, such as that of API keys, and not of an index. */
const OF_SERVICE = /"service[."]/;
export const UNDEFINED_COLUMN = "42703";
/** Columns that an older index lacks. */
const NEW_COLUMNS = /\b(was_active|made_block|made_log_index|finalized_timestamp)\b/;
export const INSUFFICIENT_PRIVILEGE = "42501";

const RETRYABLE = [DEADLOCK, RECOVERY_CONFLICT, PLAN_CHANGED, ADMIN_SHUTDOWN];

/** pg's message when all connections of a pool are in use. An unresponsive server has another message. */
const POOL_TIMEOUT = "timeout exceeded when trying to connect";

export const sqlState = (error: unknown): string | undefined =>
  error instanceof pg.DatabaseError ? error.code : undefined;

/** Tells if the same statement may succeed when it runs again. */
export const isRetryable = (error: unknown): boolean => {
  const code = sqlState(error);
  if (code !== undefined) return RETRYABLE.includes(code);
  return error instanceof Error && /connection terminated unexpectedly|ECONNRESET|EPIPE/i.test(error.message);
};

/** Explains an error that a reachable database reports. */
export const explainSqlState = (error: unknown): Problem | null => {
  const code = sqlState(error);
  if (code === undefined) return null;
  // Two deadlocks or conflicts in a row, or views that change faster than plans.
  if (code.startsWith("40") || code === PLAN_CHANGED) {
    return overloaded("The index was changing. Try again in a moment.");
  }
  // No memory, disk or connection left for this statement. Others may still succeed.
  if (code.startsWith("53")) return overloaded("The database is full. Try again in a moment.");
  if (code === STATEMENT_TIMEOUT) {
    return overloaded("The answer took too long to find. Try again in a moment; for a long list, use limit.");
  }
  const message = error instanceof Error ? error.message : "";
  if ((code === UNDEFINED_TABLE || code === UNDEFINED_SCHEMA) && !OF_SERVICE.test(message)) {
    return notIndexed("This chain is not indexed yet.");
  }
  if (code === UNDEFINED_COLUMN && NEW_COLUMNS.test(message)) {
    return notIndexed("The served index is of an older version, which cannot answer this. A new one has to be built.");
  }
  return null;
};

export const isPoolTimeout = (error: unknown): boolean => error instanceof Error && error.message === POOL_TIMEOUT;

/** pg's messages when a server does not respond. A stall of this process looks the same. */
const TIMEOUTS = ["Query read timeout", "Connection terminated due to connection timeout", "timeout expired"];

export const isTimeout = (error: Error): boolean => TIMEOUTS.includes(error.message);

/** An error without a code means that the connection failed; classes 08, 57 and 58, that the server stops or is broken. */
export const isConnectionFailure = (error: unknown): error is Error => {
  const code = sqlState(error);
  return error instanceof Error && (code === undefined || /^(08|57|58)/.test(code));
};
