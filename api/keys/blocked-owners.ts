import { eq, sql } from "drizzle-orm";
import type { Database } from "../database/database.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import { requireTables } from "../database/service-tables.ts";
import { apiKey, blockedOwner } from "../database/tables.ts";

const value = sql.placeholder;

const prepared = memoizeByDatabase(({ db }) => ({
  find: db
    .select({ owner: blockedOwner.owner })
    .from(blockedOwner)
    .where(eq(blockedOwner.owner, value("owner")))
    .prepare("find-blocked-owner"),
  block: db
    .insert(blockedOwner)
    .values({ owner: value("owner") })
    .onConflictDoNothing()
    .prepare("block-owner"),
  unblock: db
    .delete(blockedOwner)
    .where(eq(blockedOwner.owner, value("owner")))
    .returning({ owner: blockedOwner.owner })
    .prepare("unblock-owner"),
}));

/** True for a key whose owner is blocked. */
export const HAS_BLOCKED_OWNER = sql<boolean>`exists (
  select from ${blockedOwner} as blocked where blocked.owner = ${apiKey.owner})`;

/** Refuses the keys of an account, present and future ones: in every process within a minute. */
export const blockOwner = async (database: Database, owner: string): Promise<void> => {
  await database.run(() => prepared(database).block.execute({ owner }));
};

/** @returns false if the account was not blocked */
export const unblockOwner = async (database: Database, owner: string): Promise<boolean> =>
  (await database.run(() => prepared(database).unblock.execute({ owner }))).length > 0;

export const isOwnerBlocked = async (database: Database, owner: string): Promise<boolean> =>
  (await requireTables(database.run(() => prepared(database).find.execute({ owner })))).length > 0;
