import { and, desc, eq, getTableColumns, inArray, isNotNull, isNull, lt, ne, or, sql } from "drizzle-orm";
import { aliasColumns } from "../database/columns.ts";
import type { Database } from "../database/database.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import { requireTables } from "../database/service-tables.ts";
import { compileStatement } from "../database/statement.ts";
import { apiKey, apiKeyUsage, usageWriter } from "../database/tables.ts";
import { looksLikeKey, type StoredKey } from "./api-key.ts";
import { HAS_BLOCKED_OWNER } from "./blocked-owners.ts";

const value = sql.placeholder;

/** Days for which a revoked key is refused as revoked. Then it is unknown. */
const REVOKED_KEY_DAYS = 30;
const DELETED_AT_ONCE = 1_000;

/** The public data of a key. */
export type KeyInfo = {
  id: bigint;
  name: string;
  prefix: string;
  createdAt: Date;
  revokedAt: Date | null;
};

const { id, name, prefix, createdAt, revokedAt } = getTableColumns(apiKey);
export const KEY_COLUMNS = { id, name, prefix, createdAt, revokedAt };

export const USAGE_COLUMNS = {
  requests: sql`coalesce(sum(${apiKeyUsage.requests}), 0)`.mapWith(BigInt),
  lastUsedAt: sql`max(${apiKeyUsage.lastUsedAt})`.mapWith(apiKeyUsage.lastUsedAt),
};

const prepared = memoizeByDatabase(({ db }) => ({
  find: compileStatement<{ hash: string } & KeyRecord>(
    "find-keys",
    db
      .select(
        aliasColumns({
          hash: apiKey.hash,
          id: apiKey.id,
          owner: apiKey.owner,
          isRevoked: isNotNull(apiKey.revokedAt),
          isBlocked: HAS_BLOCKED_OWNER,
        }),
      )
      .from(apiKey)
      .where(eq(apiKey.hash, sql`any (${value("hashes")}::text[])`)),
  ),
  insert: db
    .insert(apiKey)
    .values({ name: value("name"), prefix: value("prefix"), hash: value("hash") })
    .onConflictDoNothing()
    .returning({ id: apiKey.id })
    .prepare("insert-key"),
  list: db
    .select({ ...KEY_COLUMNS, ...USAGE_COLUMNS, owner: apiKey.owner, isBlocked: HAS_BLOCKED_OWNER })
    .from(apiKey)
    .leftJoin(apiKeyUsage, eq(apiKeyUsage.apiKeyId, apiKey.id))
    .groupBy(apiKey.id)
    .orderBy(apiKey.id)
    .prepare("list-keys"),
  search: db
    .select(KEY_COLUMNS)
    .from(apiKey)
    .where(or(eq(apiKey.name, value("name")), eq(apiKey.prefix, value("text")), eq(apiKey.hash, value("hash"))))
    .orderBy(apiKey.id)
    .prepare("search-keys"),
  revoke: db
    .update(apiKey)
    .set({ revokedAt: sql`now()` })
    .where(and(eq(apiKey.id, value("id")), isNull(apiKey.revokedAt)))
    .prepare("revoke-key"),
  deleteRevoked: db
    .delete(apiKey)
    .where(
      inArray(
        apiKey.id,
        db
          .select({ id: apiKey.id })
          .from(apiKey)
          .where(lt(apiKey.revokedAt, sql`now() - make_interval(days => ${value("days")})`))
          .limit(DELETED_AT_ONCE)
          .for("update", { skipLocked: true }),
      ),
    )
    .returning({ id: apiKey.id })
    .prepare("delete-revoked-keys"),
  usage: db
    .select({ day: apiKeyUsage.day, name: apiKey.name, prefix: apiKey.prefix, requests: apiKeyUsage.requests })
    .from(apiKeyUsage)
    .innerJoin(apiKey, eq(apiKey.id, apiKeyUsage.apiKeyId))
    .where(
      and(
        sql`${apiKeyUsage.day} > (now() at time zone 'utc')::date - ${value("days")}::int`,
        sql`(${value("keyId")}::bigint is null or ${apiKey.id} = ${value("keyId")})`,
      ),
    )
    .orderBy(desc(apiKeyUsage.day), desc(apiKeyUsage.requests), apiKey.id)
    .prepare("read-usage"),
  addUsage: addUsageQuery(db).prepare("add-usage"),
}));

/** Adds each batch number of a writer once: a statement is repeated when its connection breaks. */
function addUsageQuery(db: Database["db"]) {
  const turn = db.$with("turn").as(
    db
      .insert(usageWriter)
      .values({ id: value("writer"), batch: sql`${value("number")}`, writtenAt: sql`now()` })
      .onConflictDoUpdate({
        target: usageWriter.id,
        set: { batch: sql`excluded.batch`, writtenAt: sql`excluded.written_at` },
        setWhere: lt(usageWriter.batch, sql`excluded.batch`),
      })
      .returning({ id: usageWriter.id }),
  );
  const gone = db.$with("gone").as(
    db
      .delete(usageWriter)
      .where(and(lt(usageWriter.writtenAt, sql`now() - interval '1 day'`), ne(usageWriter.id, value("writer"))))
      .returning({ id: usageWriter.id }),
  );
  const counted = db
    .select({
      apiKeyId: apiKey.id,
      day: sql<string>`counted.day`.as("day"),
      requests: sql<bigint>`counted.requests`.as("requests"),
      lastUsedAt: sql<Date>`counted.last_used_at`.as("last_used_at"),
    })
    .from(
      sql`unnest(${value("keyIds")}::bigint[], ${value("days")}::date[], ${value("requests")}::bigint[],
        ${value("lastUsedAt")}::timestamptz[]) as counted (id, day, requests, last_used_at)`,
    )
    .innerJoin(apiKey, eq(apiKey.id, sql`counted.id`))
    .where(sql`exists (select from turn)`);
  return db
    .with(turn, gone)
    .insert(apiKeyUsage)
    .select(counted)
    .onConflictDoUpdate({
      target: [apiKeyUsage.apiKeyId, apiKeyUsage.day],
      set: {
        requests: sql`${apiKeyUsage.requests} + excluded.requests`,
        lastUsedAt: sql`greatest(${apiKeyUsage.lastUsedAt}, excluded.last_used_at)`,
      },
    });
}

export type KeyRecord = { id: string; owner: string | null; isRevoked: boolean; isBlocked: boolean };

/** Finds keys by their hashes; null for unknown ones. */
export const findKeys = async (
  database: Database,
  hashes: readonly string[],
): Promise<readonly (KeyRecord | null)[]> => {
  const rows = await requireTables(
    database.read("checks", prepared(database).find, { hashes }),
    "API keys cannot be checked yet. Try again in a moment, or without a key.",
  );
  const found = new Map(rows.map(({ hash, ...record }) => [hash, record]));
  return hashes.map((hash) => found.get(hash) ?? null);
};

/** @returns false if another key has the same prefix, which would make them hard to distinguish */
export const insertKey = async (database: Database, key: StoredKey & { name: string }): Promise<boolean> => {
  const inserted = await database.run(() => prepared(database).insert.execute(key));
  return inserted.length > 0;
};

/** Lists all keys, oldest first, with their total usage and last use. */
export const listKeys = (database: Database) => database.run(() => prepared(database).list.execute());

/** Finds keys by name, by prefix or by the key itself. A text that looks like a prefix is no name. */
export const searchKeys = (database: Database, text: string, hash: string): Promise<KeyInfo[]> => {
  const name = looksLikeKey(text) ? null : text;
  return database.run(() => prepared(database).search.execute({ name, text, hash }));
};

export const revokeKey = async (database: Database, id: bigint): Promise<void> => {
  await database.run(() => prepared(database).revoke.execute({ id }));
};

/** Deletes the keys that were revoked over REVOKED_KEY_DAYS ago, with their usage. */
export const deleteRevokedKeys = async (database: Database): Promise<void> => {
  const deleteSome = () => database.run(() => prepared(database).deleteRevoked.execute({ days: REVOKED_KEY_DAYS }));
  while ((await deleteSome()).length === DELETED_AT_ONCE);
};

/** Reads the usage of keys per day, newest first. */
export const readUsage = (database: Database, filter: { days: number; keyId: bigint | null }) =>
  database.run(() => prepared(database).usage.execute(filter));

/** Usage of a key on a day. */
export type DailyUsage = { keyId: string; day: string; requests: number; lastUsedAt: Date };

/** Usage that one process has counted since its previous batch. */
export type UsageBatch = { writer: string; number: number; usage: readonly DailyUsage[] };

/** Adds a batch to the stored usage. Idempotent: a batch counts once. A writer sends batches in order of their numbers. */
export const addUsage = async (database: Database, { writer, number, usage }: UsageBatch): Promise<void> => {
  const columns = {
    keyIds: usage.map(({ keyId }) => keyId),
    days: usage.map(({ day }) => day),
    requests: usage.map(({ requests }) => requests),
    lastUsedAt: usage.map(({ lastUsedAt }) => lastUsedAt),
  };
  await database.run(() => prepared(database).addUsage.execute({ writer, number, ...columns }));
};
