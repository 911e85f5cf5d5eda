import type { Database } from "../database.ts";
import { runOnService } from "./run-on-service.ts";

export type Session = { owner: string; expiresAt: Date };

const CLEARED_AT_ONCE = 20;

/**
 * Remembers who is signed in, in place of whoever was in the same browser, and forgets some sessions that are over.
 * @param token - and the one before it: hashes
 */
export const insertSession = async (
  database: Database,
  { token, before, owner, seconds }: { token: string; before: string | null; owner: string; seconds: number },
): Promise<Date> => {
  const [row] = await runOnService(database, {
    name: "insert-session",
    text: `with gone as (
        delete from service.session where token in (
          select token from service.session where expires_at <= now()
          order by expires_at limit ${CLEARED_AT_ONCE} for update skip locked) or token = $2
      )
      insert into service.session (token, owner, expires_at) values ($1, $3, now() + make_interval(secs => $4))
      on conflict (token) do update set owner = excluded.owner
      returning expires_at`,
    values: [token, before, owner, seconds],
  });
  return row?.[0] as Date;
};

export const findSession = async (database: Database, token: string): Promise<Session | null> => {
  const [row] = await runOnService(database, {
    name: "find-session",
    text: "select owner, expires_at from service.session where token = $1 and expires_at > now()",
    values: [token],
  });
  return row ? { owner: String(row[0]), expiresAt: row[1] as Date } : null;
};

export const deleteSession = async (database: Database, token: string): Promise<void> => {
  await runOnService(database, {
    name: "delete-session",
    text: "delete from service.session where token = $1",
    values: [token],
  });
};
