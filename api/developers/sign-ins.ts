import { hash } from "node:crypto";
import { and, eq, inArray, lte, sql } from "drizzle-orm";
import type { Address } from "viem";
import type { Database } from "../database/database.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import { requireTables } from "../database/service-tables.ts";
import { signIn } from "../database/tables.ts";

/** A sign-in that waits for the signature of its message. */
type PendingSignIn = {
  nonce: string;
  message: string;
  browser: string;
  wallet: Address;
  chainId: number;
  seconds: number;
};

/** Expired sign-ins to delete with each new one, so that they never pile up. */
const DELETED_PER_INSERT = 20;

const value = sql.placeholder;

const prepared = memoizeByDatabase(({ db }) => {
  const expired = db
    .select({ nonce: signIn.nonce })
    .from(signIn)
    .where(lte(signIn.expiresAt, sql`now()`))
    .orderBy(signIn.expiresAt)
    .limit(DELETED_PER_INSERT)
    .for("update", { skipLocked: true });
  const gone = db.$with("gone").as(db.delete(signIn).where(inArray(signIn.nonce, expired)).returning());
  return {
    insert: db
      .with(gone)
      .insert(signIn)
      .values({
        nonce: value("nonce"),
        message: value("message"),
        browser: value("browser"),
        wallet: sql`lower(${value("wallet")})`,
        chainId: sql`${value("chainId")}`,
        expiresAt: sql`now() + make_interval(secs => ${value("seconds")})`,
      })
      .onConflictDoNothing({ target: signIn.nonce })
      .prepare("insert-sign-in"),
    take: db
      .delete(signIn)
      .where(and(eq(signIn.message, value("message")), eq(signIn.browser, value("browser"))))
      .returning({
        wallet: signIn.wallet,
        chainId: signIn.chainId,
        isInTime: sql<boolean>`${signIn.expiresAt} > now()`,
      })
      .prepare("take-sign-in"),
  };
});

/** Stores a sign-in, and deletes some expired ones. */
export const insertSignIn = async (database: Database, { message, ...pending }: PendingSignIn): Promise<void> => {
  const values = { ...pending, message: hash("sha256", message) };
  await requireTables(database.run(() => prepared(database).insert.execute(values)));
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
  const [taken] = await requireTables(database.run(() => prepared(database).take.execute(values)));
  return taken?.isInTime ? { wallet: taken.wallet, chainId: taken.chainId } : null;
};
