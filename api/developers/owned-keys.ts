import { and, desc, eq, isNotNull, isNull, sql } from "drizzle-orm";
import { unionAll } from "drizzle-orm/pg-core";
import type { Database } from "../database/database.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import { requireTables } from "../database/service-tables.ts";
import { compileStatement } from "../database/statement.ts";
import { apiKey, apiKeyUsage, blockedOwner } from "../database/tables.ts";
import type { StoredKey } from "../keys/api-key.ts";
import { KEY_COLUMNS, type KeyInfo, USAGE_COLUMNS } from "../keys/api-keys.ts";
import { isOwnerBlocked } from "../keys/blocked-owners.ts";

/** A key with its total usage, and its usage on recent days. */
export type OwnedKey = KeyInfo & {
  requests: bigint;
  lastUsedAt: Date | null;
  days: { day: string; requests: number }[];
};

/** Maximum revoked keys in a list. */
const MAX_REVOKED = 20;

const value = sql.placeholder;

const prepared = memoizeByDatabase(({ db }) => {
  const isOwned = eq(apiKey.owner, value("owner"));
  const owned = unionAll(
    db
      .select(KEY_COLUMNS)
      .from(apiKey)
      .where(and(isOwned, isNull(apiKey.revokedAt))),
    db
      .select(KEY_COLUMNS)
      .from(apiKey)
      .where(and(isOwned, isNotNull(apiKey.revokedAt)))
      .orderBy(desc(apiKey.revokedAt))
      .limit(MAX_REVOKED),
  ).as("owned");
  const { id, name, prefix, createdAt, revokedAt } = owned;
  return {
    list: db
      .select({
        ...{ id, name, prefix, createdAt, revokedAt },
        ...USAGE_COLUMNS,
        days: sql<OwnedKey["days"]>`coalesce(
          json_agg(json_build_object('day', ${apiKeyUsage.day}, 'requests', ${apiKeyUsage.requests}) order by ${apiKeyUsage.day})
            filter (where ${apiKeyUsage.day} > (now() at time zone 'utc')::date - ${value("days")}::int), '[]')`,
      })
      .from(owned)
      .leftJoin(apiKeyUsage, eq(apiKeyUsage.apiKeyId, id))
      .where(sql`(${value("prefix")}::text is null or ${prefix} = ${value("prefix")})`)
      .groupBy(id, name, prefix, createdAt, revokedAt)
      .orderBy(isNotNull(revokedAt), desc(id))
      .prepare("list-owned-keys"),
    // drizzle would insert into all columns, but one is generated.
    insert: compileStatement<{ id: string }>(
      "insert-owned-key",
      sql`insert into ${apiKey} (name, prefix, hash, owner, slot)
        select ${value("name")}, ${value("prefix")}, ${value("hash")}, ${value("owner")}, slot
        from generate_series(1, ${value("maxKeys")}::int) as free (slot)
        where not exists (
          select from ${apiKey} as taken
          where taken.owner = ${value("owner")} and taken.slot = free.slot and taken.revoked_at is null)
        and not exists (select from ${blockedOwner} as blocked where blocked.owner = ${value("owner")})
        and ${value("maxKeysPerDay")}::int > (
          select count(*) from ${apiKey} as recent
          where recent.owner = ${value("owner")} and recent.created_at > now() - interval '1 day')
        order by slot limit 1
        on conflict do nothing returning id`,
    ),
    explainFailure: db
      .select({
        isInserted: sql<boolean>`coalesce(bool_or(${apiKey.hash} = ${value("hash")}), false)`,
        taken:
          sql`count(*) filter (where ${apiKey.slot} <= ${value("maxKeys")} and ${apiKey.revokedAt} is null)`.mapWith(
            Number,
          ),
        madeToday: sql`count(*) filter (where ${apiKey.createdAt} > now() - interval '1 day')`.mapWith(Number),
        secondsToNext: sql`extract(epoch from min(${apiKey.createdAt}) filter (
          where ${apiKey.createdAt} > now() - interval '1 day') + interval '1 day' - now())`.mapWith(Number),
      })
      .from(apiKey)
      .where(isOwned)
      .prepare("why-no-owned-key"),
    revoke: db
      .update(apiKey)
      .set({ revokedAt: sql`coalesce(${apiKey.revokedAt}, now())` })
      .where(and(isOwned, eq(apiKey.prefix, value("prefix"))))
      .returning({ hash: apiKey.hash })
      .prepare("revoke-owned-key"),
  };
});

/** Lists the keys of an account: active keys first, newest first. */
export const listOwnedKeys = (
  database: Database,
  { owner, days, prefix = null }: { owner: string; days: number; prefix?: string | null },
): Promise<OwnedKey[]> => requireTables(database.run(() => prepared(database).list.execute({ owner, days, prefix })));

type NewKey = StoredKey & { name: string; owner: string };

type Insertion =
  | { outcome: "inserted" | "too many" | "blocked" }
  /** Another key has the prefix, or a concurrent one took the slot. */
  | { outcome: "conflict" }
  | { outcome: "too many today"; secondsToNext: number };

/**
 * Inserts a key if its owner may have another. Each key takes a slot: of two concurrent inserts into the last slot, the
 * second fails.
 * @param limits - for the active keys of an owner, and for those made within a day, revoked or not
 */
export const insertOwnedKey = async (
  database: Database,
  key: NewKey,
  limits: { maxKeys: number; maxKeysPerDay: number },
): Promise<Insertion> => {
  const values = { ...key, ...limits };
  const [inserted] = await requireTables(database.read("checks", prepared(database).insert, values));
  if (inserted) return { outcome: "inserted" };
  // A statement is repeated when its connection breaks: the first attempt may have inserted the key.
  const [failure] = await requireTables(database.run(() => prepared(database).explainFailure.execute(values)));
  if (!failure) return { outcome: "conflict" };
  const { isInserted, taken, madeToday, secondsToNext } = failure;
  if (isInserted) return { outcome: "inserted" };
  if (await isOwnerBlocked(database, key.owner)) return { outcome: "blocked" };
  if (madeToday >= limits.maxKeysPerDay) return { outcome: "too many today", secondsToNext: Math.ceil(secondsToNext) };
  return { outcome: taken >= limits.maxKeys ? "too many" : "conflict" };
};

/** Revokes a key of an account. @returns its hash; null if the account never had this key */
export const revokeOwnedKey = async (
  database: Database,
  key: Pick<NewKey, "owner" | "prefix">,
): Promise<string | null> => {
  // Postgres refuses a text with a NUL character.
  if (!/^\w+$/.test(key.prefix)) return null;
  const [revoked] = await requireTables(database.run(() => prepared(database).revoke.execute(key)));
  return revoked?.hash ?? null;
};
