import pg from "pg";
import { findTable, quoteTable } from "./ponder-tables.ts";
import type { Queryable } from "./queryable.ts";

/** The timeline that a server writes to, as hex digits. Each standby that takes over starts a new one. */
const TIMELINE = "left(pg_walfile_name(pg_current_wal_lsn()), 8)";

/** Error codes of servers, such as some managed ones, that do not show it: not allowed, no such function, not supported. */
const TIMELINE_UNAVAILABLE = ["42501", "42883", "0A000"];

/** @returns the server's timeline, or null if the server does not show it */
export const readTimeline = async (client: Queryable): Promise<string | null> => {
  try {
    const { rows } = await client.query<{ timeline: string }>(`select ${TIMELINE} as timeline`);
    return rows[0]?.timeline ?? null;
  } catch (error) {
    if (error instanceof pg.DatabaseError && TIMELINE_UNAVAILABLE.includes(error.code ?? "")) return null;
    throw error;
  }
};

/**
 * Creates a trigger on Ponder's checkpoints, which are part of each of its commits. The trigger makes the commit durable
 * before Postgres confirms it, which Ponder does not ask for. It also rejects commits on another timeline: a standby that
 * has taken over may lack the newest commits, and Ponder would continue after them.
 * @returns false while Ponder has not created its tables
 */
export const guardCommits = async (client: Queryable, schema: string, timeline: string | null): Promise<boolean> => {
  const checkpoints = await findTable(client, schema, "_ponder_checkpoint");
  if (!checkpoints) return false;
  const guard = quoteTable(schema, "on_store");
  // Ponder does not retry an error with "does not exist" in its message: it ends at once.
  const message = "The newest rows may be missing: another Postgres has taken over, where a commit does not exist.";
  const checkTimeline =
    timeline === null ? "" : `if ${TIMELINE} <> '${timeline}' then raise exception '${message}'; end if;`;
  await client.query(
    `create or replace function ${guard}() returns trigger language plpgsql as $$ begin
       ${checkTimeline}
       perform set_config('synchronous_commit', 'on', true);
       return null;
     end $$`,
  );
  await client.query(
    `create or replace trigger on_store after insert or update on ${checkpoints}
     for each statement execute function ${guard}()`,
  );
  return true;
};
