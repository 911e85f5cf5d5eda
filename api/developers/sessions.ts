import { hash } from "node:crypto";
import { and, eq, gt, inArray, lte, or, sql } from "drizzle-orm";
import type { Address } from "viem";
import type { Database } from "../database/database.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import { requireTables } from "../database/service-tables.ts";
import { session, signIn } from "../database/tables.ts";

// A sign-in waits for the signature of its message. Its end begins a session.

type PendingSignIn = {
  nonce: string;
  message: string;
  browser: string;
  wallet: Address;
  chainId: number;
  seconds: number;
};

export type StoredSession = { owner: string; expiresAt: Date };

/** Expired rows to delete with each new one, so that they never pile up. */
const DELETED_PER_INSERT = 20;

const value = sql.placeholder;

const now = sql`now()`;
const expiresAt = sql`now() + make_interval(secs => ${value("seconds")})`;

const prepared = memoizeByDatabase(({ db }) => {
  const expiredSignIns = db
    .select({ nonce: signIn.nonce })
    .from(signIn)
    .where(lte(signIn.expiresAt, now))
    .orderBy(signIn.expiresAt)
    .limit(DELETED_PER_INSERT)
    .for("update", { skipLocked: true });
  const goneSignIns = db.$with("gone").as(db.delete(signIn).where(inArray(signIn.nonce, expiredSignIns)).returning());
  const expiredSessions = db
    .select({ token: session.token })
    .from(session)
    .where(lte(session.expiresAt, now))
    .orderBy(session.expiresAt)
    .limit(DELETED_PER_INSERT)
    .for("update", { skipLocked: true });
  const goneSessions = db.$with("gone").as(
    db
      .delete(session)
      .where(or(inArray(session.token, expiredSessions), eq(session.token, value("before"))))
      .returning(),
  );
  return {
    insertSignIn: db
      .with(goneSignIns)
      .insert(signIn)
      .values({
        nonce: value("nonce"),
        message: value("message"),
        browser: value("browser"),
        wallet: sql`lower(${value("wallet")})`,
        chainId: sql`${value("chainId")}`,
        expiresAt,
      })
      .onConflictDoNothing({ target: signIn.nonce })
      .prepare("insert-sign-in"),
    takeSignIn: db
      .delete(signIn)
      .where(and(eq(signIn.message, value("message")), eq(signIn.browser, value("browser"))))
      .returning({
        wallet: signIn.wallet,
        chainId: signIn.chainId,
        isInTime: sql<boolean>`${signIn.expiresAt} > now()`,
      })
      .prepare("take-sign-in"),
    insertSession: db
      .with(goneSessions)
      .insert(session)
      .values({ token: value("token"), owner: value("owner"), expiresAt })
      .onConflictDoUpdate({ target: session.token, set: { owner: sql`excluded.owner` } })
      .returning({ expiresAt: session.expiresAt })
      .prepare("insert-session"),
    findSession: db
      .select({ owner: session.owner, expiresAt: session.expiresAt })
      .from(session)
      .where(and(eq(session.token, value("token")), gt(session.expiresAt, now)))
      .prepare("find-session"),
    deleteSession: db
      .delete(session)
      .where(eq(session.token, value("token")))
      .prepare("delete-session"),
  };
});

/** Stores a sign-in, and deletes some expired ones. */
export const insertSignIn = async (database: Database, { message, ...pending }: PendingSignIn): Promise<void> => {
  const values = { ...pending, message: hash("sha256", message) };
  await requireTables(database.run(() => prepared(database).insertSignIn.execute(values)));
};

/**
 * Deletes and returns the sign-in of a browser with exactly this message: only one of several concurrent calls gets it.
 * Null if there is none, or it is used or expired. The text may be anything: it is hashed, never parsed.
 */
export const takeSignIn = async (
  database: Database,
  { message, browser }: Pick<PendingSignIn, "message" | "browser">,
): Promise<Pick<PendingSignIn, "wallet" | "chainId"> | null> => {
  const values = { message: hash("sha256", message), browser };
  const [taken] = await requireTables(database.run(() => prepared(database).takeSignIn.execute(values)));
  return taken?.isInTime ? { wallet: taken.wallet, chainId: taken.chainId } : null;
};

/**
 * Stores a session. Deletes the browser's previous one, and some expired ones.
 * @param values - with hashes of the session's token and of the previous one
 */
export const insertSession = async (
  database: Database,
  values: { token: string; before: string | null; owner: string; seconds: number },
): Promise<Date> => {
  const [inserted] = await requireTables(database.run(() => prepared(database).insertSession.execute(values)));
  if (!inserted) throw new Error("The database returned no row for a new session.");
  return inserted.expiresAt;
};

export const findSession = async (database: Database, token: string): Promise<StoredSession | null> => {
  const [found] = await requireTables(database.run(() => prepared(database).findSession.execute({ token })));
  return found ?? null;
};

export const deleteSession = async (database: Database, token: string): Promise<void> => {
  await requireTables(database.run(() => prepared(database).deleteSession.execute({ token })));
};
