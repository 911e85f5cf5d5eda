import { type SQL, type SQLWrapper, sql } from "drizzle-orm";

// The columns of compiled statements, whose rows nobody but Postgres names.

/** Columns under these names. */
export const named = (columns: Readonly<Record<string, SQLWrapper>>): Record<string, SQL.Aliased> =>
  Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, sql`${column}`.as(name)]));

/** Columns with nothing in them. */
export const nothing = (names: readonly string[]) => named(Object.fromEntries(names.map((name) => [name, sql`null`])));

/** Columns of a query within another. */
export const pick = (query: object, names: readonly string[]): Record<string, SQL.Aliased> =>
  Object.fromEntries(names.map((name) => [name, query[name as keyof typeof query]]));
