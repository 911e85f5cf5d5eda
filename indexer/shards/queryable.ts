import type pg from "pg";

/** A client, or a connection that reconnects. */
export type Queryable = {
  query<Row extends pg.QueryResultRow = pg.QueryResultRow>(
    text: string,
    values?: unknown[],
  ): Promise<pg.QueryResult<Row>>;
};
