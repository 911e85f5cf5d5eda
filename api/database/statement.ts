import type { SQLWrapper } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";
import type { Database } from "./database.ts";

/** SQL that drizzle has written: compiled once, and prepared once on each connection. */
export type Statement<Row> = { name: string; text: string; params: unknown[]; row?: Row };

const dialect = new PgDialect({ casing: "snake_case" });

/** @typeParam Row - a row as pg returns it: drizzle does not map the rows of a compiled statement */
export const compileStatement = <Row>(name: string, query: SQLWrapper): Statement<Row> => {
  const { sql, params } = dialect.sqlToQuery(query.getSQL());
  return { name, text: sql, params };
};

/** Creates a value once for each database and names, such as a schema: statements are compiled once. */
export const memoizeByDatabase = <Value, Names extends string[] = []>(
  create: (database: Database, ...names: Names) => Value,
): ((database: Database, ...names: Names) => Value) => {
  const caches = new WeakMap<Database, Map<string, Value>>();
  return (database, ...names) => {
    let cache = caches.get(database);
    if (!cache) {
      cache = new Map();
      caches.set(database, cache);
    }
    const name = names.join(" ");
    let value = cache.get(name);
    if (value === undefined) {
      value = create(database, ...names);
      cache.set(name, value);
    }
    return value;
  };
};

/** Remembers the result for each kind of statement. */
export const memoize = <Kind, Value>(
  create: (kind: Kind) => Value,
  name: (kind: Kind) => string,
): ((kind: Kind) => Value) => {
  const values = new Map<string, Value>();
  return (kind) => {
    const key = name(kind);
    const value = values.get(key) ?? create(kind);
    values.set(key, value);
    return value;
  };
};
