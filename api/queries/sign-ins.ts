import { and, eq, inArray, lte, sql } from "drizzle-orm";
import { type Database, preparedFor } from "../database.ts";
import { signIn } from "../tables.ts";
import { onService } from "./on-service.ts";

/** A sign-in that was begun. */
export type SignIn = { nonce: string; browser: string; wallet: string; chainId: number; seconds: number };

/** So many that are over are cleared away with each new one: more than ever come. */
const CLEARED_AT_ONCE = 20;

const value = sql.placeholder;

const prepared = preparedFor(({ db }) => {
  const over = db
    .select({ nonce: signIn.nonce })
    .from(signIn)
    .where(lte(signIn.expiresAt, sql`now()`))
    .orderBy(signIn.expiresAt)
    .limit(CLEARED_AT_ONCE)
    .for("update", { skipLocked: true });
  const gone = db.$with("gone").as(db.delete(signIn).where(inArray(signIn.nonce, over)).returning());
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

/** Remembers a sign-in, and forgets some that are over. */
export const insertSignIn = async (database: Database, begun: SignIn): Promise<void> => {
  await onService(database.run(() => prepared(database).insert.execute(begun)));
};

/** Takes a sign-in away: of all who try at the same moment one gets it. Null if there is none any more. */
export const takeSignIn = async (
  database: Database,
  begun: Pick<SignIn, "nonce" | "browser">,
): Promise<Pick<SignIn, "wallet" | "chainId"> | null> => {
  const [taken] = await onService(database.run(() => prepared(database).take.execute(begun)));
  return taken?.isInTime ? { wallet: taken.wallet, chainId: taken.chainId } : null;
};
