import type { SQLWrapper } from "drizzle-orm";
import { PgDialect } from "drizzle-orm/pg-core";

/** SQL that drizzle has written: compiled once, and prepared once on each connection. */
export type Statement<Row> = { name: string; text: string; params: unknown[]; row?: Row };

const dialect = new PgDialect({ casing: "snake_case" });

/** @typeParam Row - a row as pg returns it: drizzle does not map the rows of a compiled statement */
export const compileStatement = <Row>(name: string, query: SQLWrapper): Statement<Row> => {
  const { sql, params } = dialect.sqlToQuery(query.getSQL());
  return { name, text: sql, params };
};
