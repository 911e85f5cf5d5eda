import { and, eq, gt, inArray, lte, or, sql } from "drizzle-orm";
import { type Database, preparedFor } from "../database.ts";
import { session } from "../tables.ts";
import { onService } from "./on-service.ts";

export type Session = { owner: string; expiresAt: Date };

const CLEARED_AT_ONCE = 20;

const value = sql.placeholder;

const prepared = preparedFor(({ db }) => {
  const over = db
    .select({ token: session.token })
    .from(session)
    .where(lte(session.expiresAt, sql`now()`))
    .orderBy(session.expiresAt)
    .limit(CLEARED_AT_ONCE)
    .for("update", { skipLocked: true });
  const gone = db.$with("gone").as(
    db
      .delete(session)
      .where(or(inArray(session.token, over), eq(session.token, value("before"))))
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
 * Remembers who is signed in, in place of whoever was in the same browser, and forgets some sessions that are over.
 * @param values - its token, and the one before it: hashes
 */
export const insertSession = async (
  database: Database,
  values: { token: string; before: string | null; owner: string; seconds: number },
): Promise<Date> => {
  const [made] = await onService(database.run(() => prepared(database).insert.execute(values)));
  if (!made) throw new Error("A session was not stored.");
  return made.expiresAt;
};

export const findSession = async (database: Database, token: string): Promise<Session | null> => {
  const [found] = await onService(database.run(() => prepared(database).find.execute({ token })));
  return found ?? null;
};

export const deleteSession = async (database: Database, token: string): Promise<void> => {
  await onService(database.run(() => prepared(database).remove.execute({ token })));
};
