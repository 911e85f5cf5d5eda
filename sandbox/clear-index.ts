import pg from "pg";
import { describeError } from "../stack/program.ts";

/** What is not made of chains. */
const KEPT = ["public", "service", "information_schema"];

/** Drops every index of a database, and what Ponder has fetched for it: chains that start anew are other chains. */
export const clearIndex = async (databaseUrl: string): Promise<void> => {
  const client = new pg.Client(databaseUrl);
  try {
    await client.connect();
    const { rows } = await client.query<{ name: string }>(
      `select quote_ident(nspname) as name from pg_namespace where nspname <> all ($1) and nspname not like 'pg\\_%'`,
      [KEPT],
    );
    for (const { name } of rows) await client.query(`drop schema if exists ${name} cascade`);
  } catch (cause) {
    throw new Error(
      "The sandbox's database cannot be cleared. A database of real networks is none: without a file .env there is one.\n" +
        `  because: ${describeError(cause)}`,
    );
  } finally {
    await client.end().catch(() => {});
  }
};
