import type { Database } from "../database.ts";
import { runOnService } from "./run-on-service.ts";

/** A sign-in that was begun. */
export type SignIn = { nonce: string; browser: string; wallet: string; chainId: number; seconds: number };

/** So many that are over are cleared away with each new one: more than ever come. */
const CLEARED_AT_ONCE = 20;

/** Remembers a sign-in, and forgets some that are over. */
export const insertSignIn = async (
  database: Database,
  { nonce, browser, wallet, chainId, seconds }: SignIn,
): Promise<void> => {
  await runOnService(database, {
    name: "insert-sign-in",
    text: `with gone as (
        delete from service.sign_in where nonce in (
          select nonce from service.sign_in where expires_at <= now()
          order by expires_at limit ${CLEARED_AT_ONCE} for update skip locked)
      )
      insert into service.sign_in (nonce, browser, wallet, chain_id, expires_at)
      values ($1, $2, $3, $4, now() + make_interval(secs => $5))
      on conflict (nonce) do nothing`,
    values: [nonce, browser, wallet, chainId, seconds],
  });
};

/** Takes a sign-in away: of all who try at the same moment one gets it. Null if there is none any more. */
export const takeSignIn = async (
  database: Database,
  { nonce, browser }: Pick<SignIn, "nonce" | "browser">,
): Promise<Pick<SignIn, "wallet" | "chainId"> | null> => {
  const [row] = await runOnService(database, {
    name: "take-sign-in",
    text: `delete from service.sign_in where nonce = $1 and browser = $2
      returning wallet, chain_id, expires_at > now()`,
    values: [nonce, browser],
  });
  if (!row) return null;
  const [wallet, chainId, isInTime] = row;
  return isInTime === true ? { wallet: String(wallet), chainId: Number(chainId) } : null;
};
