import { type SQL, type SQLWrapper, sql } from "drizzle-orm";

// Columns of compiled statements: their aliases are the keys of the rows that pg returns.

export const aliasColumns = (columns: Readonly<Record<string, SQLWrapper>>): Record<string, SQL.Aliased> =>
  Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, sql`${column}`.as(name)]));

export const nullColumns = (names: readonly string[]) =>
  aliasColumns(Object.fromEntries(names.map((name) => [name, sql`null`])));

/** Selects columns of a subquery. */
export const pickColumns = (query: object, names: readonly string[]): Record<string, SQL.Aliased> =>
  Object.fromEntries(names.map((name) => [name, query[name as keyof typeof query]]));
