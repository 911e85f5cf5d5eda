import { and, desc, eq, isNotNull, isNull, sql } from "drizzle-orm";
import { unionAll } from "drizzle-orm/pg-core";
import { compile, type Database, preparedFor } from "../database.ts";
import { apiKey, apiKeyUsage } from "../tables.ts";
import { INFO, type KeyInfo, USE } from "./api-keys.ts";
import { onService } from "./on-service.ts";

/** How often a key was used, and on which of the last days. */
export type OwnedKey = KeyInfo & {
  requests: bigint;
  lastUsedAt: Date | null;
  days: { day: string; requests: number }[];
};

/** Of those that were revoked, so many are shown. */
const MOST_REVOKED = 20;

const value = sql.placeholder;

const prepared = preparedFor(({ db }) => {
  const isOwned = eq(apiKey.owner, value("owner"));
  const owned = unionAll(
    db
      .select(INFO)
      .from(apiKey)
      .where(and(isOwned, isNull(apiKey.revokedAt))),
    db
      .select(INFO)
      .from(apiKey)
      .where(and(isOwned, isNotNull(apiKey.revokedAt)))
      .orderBy(desc(apiKey.revokedAt))
      .limit(MOST_REVOKED),
  ).as("owned");
  const { id, name, prefix, createdAt, revokedAt } = owned;
  return {
    list: db
      .select({
        ...{ id, name, prefix, createdAt, revokedAt },
        ...USE,
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
    // drizzle would insert into all columns, of which one makes itself.
    insert: compile<{ id: string }>(
      "insert-owned-key",
      sql`insert into ${apiKey} (name, prefix, hash, owner, slot)
        select ${value("name")}, ${value("prefix")}, ${value("hash")}, ${value("owner")}, slot
        from generate_series(1, ${value("most")}::int) as free (slot)
        where not exists (
          select from ${apiKey} as taken
          where taken.owner = ${value("owner")} and taken.slot = free.slot and taken.revoked_at is null)
        order by slot limit 1
        on conflict do nothing returning id`,
    ),
    whyNot: db
      .select({
        isThere: sql<boolean>`coalesce(bool_or(${apiKey.hash} = ${value("hash")}), false)`,
        taken: sql`count(*) filter (where ${apiKey.slot} <= ${value("most")})`.mapWith(Number),
      })
      .from(apiKey)
      .where(and(isOwned, isNull(apiKey.revokedAt)))
      .prepare("why-no-owned-key"),
    revoke: db
      .update(apiKey)
      .set({ revokedAt: sql`coalesce(${apiKey.revokedAt}, now())` })
      .where(and(isOwned, eq(apiKey.prefix, value("prefix"))))
      .returning({ hash: apiKey.hash })
      .prepare("revoke-owned-key"),
  };
});

/** The keys of an account: those that count first, each newest first. */
export const listOwnedKeys = (
  database: Database,
  { owner, days, prefix = null }: { owner: string; days: number; prefix?: string | null },
): Promise<OwnedKey[]> => onService(database.run(() => prepared(database).list.execute({ owner, days, prefix })));

type NewKey = { name: string; prefix: string; hash: string; owner: string };

/**
 * Makes a key if its owner may have another. Each takes a place of its own: of two that are made at the same
 * moment for the last one, the second finds it taken.
 */
export const insertOwnedKey = async (
  database: Database,
  key: NewKey,
  most: number,
): Promise<"made" | "too many" | "try another"> => {
  const [made] = await onService(database.read("checks", prepared(database).insert, { ...key, most }));
  if (made) return "made";
  // A statement is repeated when its connection breaks: then the key may be there already.
  const [why] = await onService(database.run(() => prepared(database).whyNot.execute({ ...key, most })));
  if (why?.isThere) return "made";
  return (why?.taken ?? 0) >= most ? "too many" : "try another";
};

/** Ends a key of an account. @returns its hash; null if the account never had such a key */
export const revokeOwnedKey = async (
  database: Database,
  key: Pick<NewKey, "owner" | "prefix">,
): Promise<string | null> => {
  const [revoked] = await onService(database.run(() => prepared(database).revoke.execute(key)));
  return revoked?.hash ?? null;
};
