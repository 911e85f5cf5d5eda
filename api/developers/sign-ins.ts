import { and, eq, inArray, lte, sql } from "drizzle-orm";
import type { Database } from "../database/database.ts";
import { requireTables } from "../database/service-tables.ts";
import { memoizeByDatabase } from "../database/statement.ts";
import { signIn } from "../database/tables.ts";

/** A sign-in that waits for its signature. */
export type PendingSignIn = { nonce: string; browser: string; wallet: string; chainId: number; seconds: number };

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
        browser: value("browser"),
        wallet: value("wallet"),
        chainId: sql`${value("chainId")}`,
        expiresAt: sql`now() + make_interval(secs => ${value("seconds")})`,
      })
      .onConflictDoNothing({ target: signIn.nonce })
      .prepare("insert-sign-in"),
    take: db
      .delete(signIn)
      .where(and(eq(signIn.nonce, value("nonce")), eq(signIn.browser, value("browser"))))
      .returning({
        wallet: signIn.wallet,
        chainId: signIn.chainId,
        isInTime: sql<boolean>`${signIn.expiresAt} > now()`,
      })
      .prepare("take-sign-in"),
  };
});

/** Stores a sign-in, and deletes some expired ones. */
export const insertSignIn = async (database: Database, pending: PendingSignIn): Promise<void> => {
  await requireTables(database.run(() => prepared(database).insert.execute(pending)));
};

/** Deletes and returns a sign-in: only one of several concurrent calls gets it. Null if it is used or expired. */
export const takeSignIn = async (
  database: Database,
  pending: Pick<PendingSignIn, "nonce" | "browser">,
): Promise<Pick<PendingSignIn, "wallet" | "chainId"> | null> => {
  const [taken] = await requireTables(database.run(() => prepared(database).take.execute(pending)));
  return taken?.isInTime ? { wallet: taken.wallet, chainId: taken.chainId } : null;
};
