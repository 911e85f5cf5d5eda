import pg from "pg";
import { YIELD_TO_READERS } from "./connection.ts";
import type { Queryable } from "./queryable.ts";

// Access to the tables that Ponder creates in an index's schema.

export const quoteTable = (schema: string, table: string) =>
  `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(table)}`;

/** @returns the quoted name of a table, or null if the table does not exist */
export const findTable = async (client: Queryable, schema: string, table: string): Promise<string | null> => {
  const name = quoteTable(schema, table);
  const { rows } = await client.query("select to_regclass($1) is not null as exists", [name]);
  return rows[0]?.exists ? name : null;
};

export const isPonderReady = async (client: Queryable, schema: string): Promise<boolean> => {
  const meta = await findTable(client, schema, "_ponder_meta");
  if (!meta) return false;
  const { rows } = await client.query(`select value->'is_ready' = '1' as ready from ${meta}`);
  return rows[0]?.ready === true;
};

/** Resets Ponder's own state before it starts. */
export const resetPonderMeta = async (client: Queryable, schema: string): Promise<void> => {
  // Ponder does this too, but only after it has reached all its chains.
  await setMeta(client, schema, "is_ready", 0);
  // Ponder's own lock outlives a killed process by 25 s.
  if (!(await isPonderConnected(client, schema))) await setMeta(client, schema, "is_locked", 0);
};

const setMeta = async (client: Queryable, schema: string, key: string, value: number): Promise<void> => {
  const meta = await findTable(client, schema, "_ponder_meta");
  if (meta) await client.query(`update ${meta} set value = jsonb_set(value, $1, $2)`, [[key], String(value)]);
};

/** Connections of a killed Ponder may take a moment to close. */
const isPonderConnected = async (client: Queryable, schema: string): Promise<boolean> => {
  const { rows } = await client.query<{ connected: boolean }>(
    `select exists (
       select from pg_stat_activity
       where datname = current_database() and application_name = any ($1::name[]::text[])
     ) as connected`,
    [["internal", "user", "readonly"].map((pool) => `${schema}_${pool}`)],
  );
  return rows[0]?.connected === true;
};

/**
 * Clears the indexed blocks and their history, within a transaction. While a chain catches up, its rows are newer than
 * the block that an earlier run stored; a reorg of any chain could restore that block for a moment, without the rows.
 */
export const clearIndexedBlocks = async (client: Queryable, schema: string): Promise<void> => {
  const reorgTable = await findTable(client, schema, "_reorg__indexed_block");
  if (!reorgTable) return;
  await client.query(YIELD_TO_READERS);
  // Not "delete": Ponder's triggers would record it to revert it, and they require Ponder's own connection.
  await client.query(`truncate ${quoteTable(schema, "indexed_block")}, ${reorgTable}`);
};
