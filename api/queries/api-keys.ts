import { and, desc, eq, getTableColumns, isNotNull, isNull, lt, ne, or, sql } from "drizzle-orm";
import { compile, type Database, preparedFor } from "../database.ts";
import { Problem } from "../problem.ts";
import { apiKey, apiKeyUsage, usageWriter } from "../tables.ts";
import { named } from "./columns.ts";
import { isMissing } from "./on-service.ts";

const value = sql.placeholder;

/** A key as its owners may see it. */
export type KeyInfo = {
  id: bigint;
  name: string;
  prefix: string;
  createdAt: Date;
  revokedAt: Date | null;
};

const { id, name, prefix, createdAt, revokedAt } = getTableColumns(apiKey);
export const INFO = { id, name, prefix, createdAt, revokedAt };

export const USE = {
  requests: sql`coalesce(sum(${apiKeyUsage.requests}), 0)`.mapWith(BigInt),
  lastUsedAt: sql`max(${apiKeyUsage.lastUsedAt})`.mapWith(apiKeyUsage.lastUsedAt),
};

const prepared = preparedFor(({ db }) => ({
  find: compile<{ hash: string; id: string; isRevoked: boolean }>(
    "find-keys",
    db
      .select(named({ hash: apiKey.hash, id: apiKey.id, isRevoked: isNotNull(apiKey.revokedAt) }))
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
    .select({ ...INFO, ...USE })
    .from(apiKey)
    .leftJoin(apiKeyUsage, eq(apiKeyUsage.apiKeyId, apiKey.id))
    .groupBy(apiKey.id)
    .orderBy(apiKey.id)
    .prepare("list-keys"),
  search: db
    .select(INFO)
    .from(apiKey)
    .where(or(eq(apiKey.name, value("text")), eq(apiKey.prefix, value("text")), eq(apiKey.hash, value("hash"))))
    .orderBy(apiKey.id)
    .prepare("search-keys"),
  revoke: db
    .update(apiKey)
    .set({ revokedAt: sql`now()` })
    .where(and(eq(apiKey.id, value("id")), isNull(apiKey.revokedAt)))
    .prepare("revoke-key"),
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
  addUsage: addUsageOf(db).prepare("add-usage"),
}));

/** Only the first of several with the same number is added: a statement is repeated when its connection breaks. */
function addUsageOf(db: Database["db"]) {
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

export type KeyRecord = { id: string; isRevoked: boolean };

/** What is known of keys, by their hashes; null where nothing is. */
export const findKeys = async (
  database: Database,
  hashes: readonly string[],
): Promise<readonly (KeyRecord | null)[]> => {
  const rows = await database.read("checks", prepared(database).find, { hashes }).catch((error) => {
    throw isMissing(error) ? keysMissing() : error;
  });
  const found = new Map(rows.map(({ hash, id, isRevoked }) => [hash, { id, isRevoked }]));
  return hashes.map((hash) => found.get(hash) ?? null);
};

const keysMissing = () =>
  new Problem("database-unavailable", "API keys cannot be looked up yet. Try again in a moment, or without a key.", {
    headers: { "Retry-After": "2" },
  });

/** @returns false if the key begins like another one, which would then be hard to tell from it */
export const insertKey = async (
  database: Database,
  key: { name: string; prefix: string; hash: string },
): Promise<boolean> => {
  const made = await database.run(() => prepared(database).insert.execute(key));
  return made.length > 0;
};

/** All keys, oldest first, with how often they were used, and when last. */
export const listKeys = (database: Database) => database.run(() => prepared(database).list.execute());

/** The keys that somebody may mean: by name, by prefix or by the key itself. */
export const searchKeys = (database: Database, text: string, hash: string): Promise<KeyInfo[]> =>
  database.run(() => prepared(database).search.execute({ text, hash }));

export const revokeKey = async (database: Database, id: bigint): Promise<void> => {
  await database.run(() => prepared(database).revoke.execute({ id }));
};

/** How often keys were used on each of the last days, newest first. */
export const readUsage = (database: Database, which: { days: number; keyId: bigint | null }) =>
  database.run(() => prepared(database).usage.execute(which));

/** How often a key was used on a day. */
export type Usage = { keyId: string; day: string; requests: number; lastUsedAt: Date };

/** What one process has counted since the batch before. */
export type UsageBatch = { writer: string; number: number; usage: readonly Usage[] };

/** Adds to what was counted before; once, however often a batch is sent. Batches come in the order of their numbers. */
export const addUsage = async (database: Database, { writer, number, usage }: UsageBatch): Promise<void> => {
  const counted = {
    keyIds: usage.map(({ keyId }) => keyId),
    days: usage.map(({ day }) => day),
    requests: usage.map(({ requests }) => requests),
    lastUsedAt: usage.map(({ lastUsedAt }) => lastUsedAt),
  };
  await database.run(() => prepared(database).addUsage.execute({ writer, number, ...counted }));
};
