import { and, eq, gt, inArray, lte, or, sql } from "drizzle-orm";
import type { Database } from "../database/database.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import { requireTables } from "../database/service-tables.ts";
import { session } from "../database/tables.ts";

export type StoredSession = { owner: string; expiresAt: Date };

/** Expired sessions to delete with each new one. */
const DELETED_PER_INSERT = 20;

const value = sql.placeholder;

const prepared = memoizeByDatabase(({ db }) => {
  const expired = db
    .select({ token: session.token })
    .from(session)
    .where(lte(session.expiresAt, sql`now()`))
    .orderBy(session.expiresAt)
    .limit(DELETED_PER_INSERT)
    .for("update", { skipLocked: true });
  const gone = db.$with("gone").as(
    db
      .delete(session)
      .where(or(inArray(session.token, expired), eq(session.token, value("before"))))
      .returning(),
  );
  return {
    insert: db
      .with(gone)
      .insert(session)
      .values({
        token: value("token"),
        owner: value("owner"),
        expiresAt: sql`now() + make_interval(secs => ${value("seconds")})`,
      })
      .onConflictDoUpdate({ target: session.token, set: { owner: sql`excluded.owner` } })
      .returning({ expiresAt: session.expiresAt })
      .prepare("insert-session"),
    find: db
      .select({ owner: session.owner, expiresAt: session.expiresAt })
      .from(session)
      .where(and(eq(session.token, value("token")), gt(session.expiresAt, sql`now()`)))
      .prepare("find-session"),
    remove: db
      .delete(session)
      .where(eq(session.token, value("token")))
      .prepare("delete-session"),
  };
});

/**
 * Stores a session. Deletes the browser's previous one, and some expired ones.
 * @param values - with hashes of the session's token and of the previous one
 */
export const insertSession = async (
  database: Database,
  values: { token: string; before: string | null; owner: string; seconds: number },
): Promise<Date> => {
  const [inserted] = await requireTables(database.run(() => prepared(database).insert.execute(values)));
  if (!inserted) throw new Error("The database returned no row for a new session.");
  return inserted.expiresAt;
};

export const findSession = async (database: Database, token: string): Promise<StoredSession | null> => {
  const [found] = await requireTables(database.run(() => prepared(database).find.execute({ token })));
  return found ?? null;
};

export const deleteSession = async (database: Database, token: string): Promise<void> => {
  await requireTables(database.run(() => prepared(database).remove.execute({ token })));
};
