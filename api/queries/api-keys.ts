import type { Database } from "../database.ts";
import { Problem } from "../problem.ts";
import { isMissing } from "./run-on-service.ts";

export type KeyRecord = { id: string; isRevoked: boolean };

/** What is known of keys, by their hashes; null where nothing is. */
export const findKeys = async (
  database: Database,
  hashes: readonly string[],
): Promise<readonly (KeyRecord | null)[]> => {
  const rows = await database
    .query({
      name: "find-keys",
      text: "select hash, id, revoked_at is not null from service.api_key where hash = any($1::text[])",
      values: [hashes],
    })
    .catch((error) => {
      throw isMissing(error) ? keysMissing() : error;
    });
  const found = new Map(rows.map(([hash, id, isRevoked]) => [hash, { id: String(id), isRevoked: isRevoked === true }]));
  return hashes.map((hash) => found.get(hash) ?? null);
};

const keysMissing = () =>
  new Problem("database-unavailable", "API keys cannot be looked up yet. Try again in a moment, or without a key.", {
    headers: { "Retry-After": "2" },
  });

/** A key as its owners may see it. */
export type KeyInfo = {
  id: string;
  name: string;
  prefix: string;
  createdAt: Date;
  revokedAt: Date | null;
};

const INFO = "id, name, prefix, created_at, revoked_at";

export const readInfo = ([id, name, prefix, createdAt, revokedAt]: readonly unknown[]): KeyInfo => ({
  id: String(id),
  name: String(name),
  prefix: String(prefix),
  createdAt: createdAt as Date,
  revokedAt: revokedAt as Date | null,
});

/** @returns false if the key begins like another one, which would then be hard to tell from it */
export const insertKey = async (
  database: Database,
  { name, prefix, hash }: { name: string; prefix: string; hash: string },
): Promise<boolean> => {
  const [row] = await database.query({
    name: "insert-key",
    text: `insert into service.api_key (name, prefix, hash) values ($1, $2, $3)
      on conflict do nothing returning id`,
    values: [name, prefix, hash],
  });
  return row !== undefined;
};

/** All keys, oldest first, with how often they were used, and when last. */
export const listKeys = async (
  database: Database,
): Promise<(KeyInfo & { requests: bigint; lastUsedAt: Date | null })[]> => {
  const rows = await database.query({
    name: "list-keys",
    text: `select ${INFO}, coalesce(sum(requests), 0), max(last_used_at)
      from service.api_key left join service.api_key_usage on api_key_id = id
      group by id order by id`,
    values: [],
  });
  return rows.map((row) => ({
    ...readInfo(row),
    requests: BigInt(String(row[5])),
    lastUsedAt: row[6] as Date | null,
  }));
};

/** The keys that somebody may mean: by name, by prefix or by the key itself. */
export const searchKeys = async (database: Database, text: string, hash: string): Promise<KeyInfo[]> => {
  const rows = await database.query({
    name: "search-keys",
    text: `select ${INFO} from service.api_key where name = $1 or prefix = $1 or hash = $2 order by id`,
    values: [text, hash],
  });
  return rows.map(readInfo);
};

export const revokeKey = async (database: Database, id: string): Promise<void> => {
  await database.query({
    name: "revoke-key",
    text: "update service.api_key set revoked_at = now() where id = $1 and revoked_at is null",
    values: [id],
  });
};

/** How often keys were used on each of the last days, newest first. */
export const readUsage = async (
  database: Database,
  { days, keyId }: { days: number; keyId: string | null },
): Promise<{ day: string; name: string; prefix: string; requests: bigint }[]> => {
  const rows = await database.query({
    name: "read-usage",
    text: `select day::text, name, prefix, requests
      from service.api_key_usage join service.api_key on api_key_id = id
      where day > (now() at time zone 'utc')::date - $1::int and ($2::bigint is null or id = $2)
      order by day desc, requests desc, id`,
    values: [days, keyId],
  });
  return rows.map(([day, name, prefix, requests]) => ({
    day: String(day),
    name: String(name),
    prefix: String(prefix),
    requests: BigInt(String(requests)),
  }));
};

/** How often a key was used on a day. */
export type Usage = { keyId: string; day: string; requests: number; lastUsedAt: Date };

/** What one process has counted since the batch before. */
export type UsageBatch = { writer: string; number: number; usage: readonly Usage[] };

/** Adds to what was counted before; once, however often a batch is sent. Batches come in the order of their numbers. */
export const addUsage = async (database: Database, { writer, number, usage }: UsageBatch): Promise<void> => {
  await database.query({
    name: "add-usage",
    text: `with turn as (
        insert into service.usage_writer as writer (id, batch, written_at) values ($5, $6, now())
        on conflict (id) do update set batch = excluded.batch, written_at = excluded.written_at
        where writer.batch < excluded.batch
        returning id
      ), gone as (
        delete from service.usage_writer where written_at < now() - interval '1 day' and id <> $5
      )
      insert into service.api_key_usage as usage (api_key_id, day, requests, last_used_at)
      select id, day, requests, last_used_at
      from unnest($1::bigint[], $2::date[], $3::bigint[], $4::timestamptz[]) as new (id, day, requests, last_used_at)
      join service.api_key using (id)
      where exists (select from turn)
      on conflict (api_key_id, day) do update set
        requests = usage.requests + excluded.requests,
        last_used_at = greatest(usage.last_used_at, excluded.last_used_at)`,
    values: [
      usage.map(({ keyId }) => keyId),
      usage.map(({ day }) => day),
      usage.map(({ requests }) => requests),
      usage.map(({ lastUsedAt }) => lastUsedAt),
      writer,
      number,
    ],
  });
};
