import pg from "pg";
import type { Queryable } from "./queryable.ts";

// Locks of the indexers. Any role can take an advisory lock, and with it stop an indexer; a lock of a relation needs a
// privilege on it. The relation is an empty view: a lock that is held for weeks would block the vacuum of a table.

const LOCK_NOT_AVAILABLE = "55P03";

const viewOf = (name: string) => `indexer.${pg.escapeIdentifier(`lock_${name}`)}`;

/** Creates a lock, unless it exists. Another indexer may create it at the same time. */
export const createLock = async (client: Queryable, name: string): Promise<void> => {
  const view = viewOf(name);
  await client.query(`do $$ begin
    if to_regnamespace('indexer') is null then create schema indexer; end if;
  exception when unique_violation or duplicate_schema then null; end $$`);
  await client.query(`do $$ begin
    if to_regclass(${pg.escapeLiteral(view)}) is null then create view ${view} as select 1 as nothing; end if;
  exception when unique_violation or duplicate_table then null; end $$`);
};

/** Takes a lock until the transaction ends. Waits while another one has it. */
export const takeLock = async (client: Queryable, name: string): Promise<void> => {
  await client.query(`lock table ${viewOf(name)} in exclusive mode`);
};

/**
 * Takes a lock until the transaction ends.
 * @returns false if another one has it: the transaction is then aborted
 */
export const tryLock = async (client: Queryable, name: string): Promise<boolean> => {
  try {
    await client.query(`lock table ${viewOf(name)} in exclusive mode nowait`);
    return true;
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE) return false;
    throw error;
  }
};

/** Drops a lock that the transaction has taken. */
export const dropLock = async (client: Queryable, name: string): Promise<void> => {
  await client.query(`drop view ${viewOf(name)}`);
};
