import type { Database } from "../database.ts";
import { type KeyInfo, readInfo } from "./api-keys.ts";
import { runOnService } from "./run-on-service.ts";

/** How often a key was used, and on which of the last days. */
export type OwnedKey = KeyInfo & {
  requests: number;
  lastUsedAt: Date | null;
  days: { day: string; requests: number }[];
};

/** Of those that were revoked, so many are shown. */
const MOST_REVOKED = 20;

/** The keys of an account: those that count first, each newest first. */
export const listOwnedKeys = async (
  database: Database,
  { owner, days, prefix = null }: { owner: string; days: number; prefix?: string | null },
): Promise<OwnedKey[]> => {
  const rows = await runOnService(database, {
    name: "list-owned-keys",
    text: `with owned as (
        (select * from service.api_key where owner = $1 and revoked_at is null)
        union all
        (select * from service.api_key where owner = $1 and revoked_at is not null
          order by revoked_at desc limit ${MOST_REVOKED})
      )
      select id, name, prefix, created_at, revoked_at, coalesce(sum(requests), 0), max(last_used_at),
        coalesce(json_agg(json_build_object('day', day, 'requests', requests) order by day)
          filter (where day > (now() at time zone 'utc')::date - $2::int), '[]')
      from owned left join service.api_key_usage on api_key_id = id
      where $3::text is null or prefix = $3
      group by id, name, prefix, created_at, revoked_at
      order by revoked_at is not null, id desc`,
    values: [owner, days, prefix],
  });
  return rows.map((row) => ({
    ...readInfo(row),
    requests: Number(row[5]),
    lastUsedAt: row[6] as Date | null,
    days: row[7] as OwnedKey["days"],
  }));
};

type NewKey = { name: string; prefix: string; hash: string; owner: string };

/**
 * Makes a key if its owner may have another. Each takes a place of its own: of two that are made at the same
 * moment for the last one, the second finds it taken.
 */
export const insertOwnedKey = async (
  database: Database,
  { name, prefix, hash, owner }: NewKey,
  most: number,
): Promise<"made" | "too many" | "try another"> => {
  const [made] = await runOnService(database, {
    name: "insert-owned-key",
    text: `insert into service.api_key (name, prefix, hash, owner, slot)
      select $1, $2, $3, $4, slot from generate_series(1, $5::int) as free (slot)
      where not exists (
        select from service.api_key as taken
        where taken.owner = $4 and taken.slot = free.slot and revoked_at is null)
      order by slot limit 1
      on conflict do nothing returning id`,
    values: [name, prefix, hash, owner, most],
  });
  if (made) return "made";
  // A statement is repeated when its connection breaks: then the key may be there already.
  const [row] = await runOnService(database, {
    name: "why-no-owned-key",
    text: `select coalesce(bool_or(hash = $2), false), count(*) filter (where slot <= $3)
      from service.api_key where owner = $1 and revoked_at is null`,
    values: [owner, hash, most],
  });
  if (row?.[0] === true) return "made";
  return Number(row?.[1]) >= most ? "too many" : "try another";
};

/** Ends a key of an account. @returns its hash; null if the account never had such a key */
export const revokeOwnedKey = async (
  database: Database,
  { owner, prefix }: Pick<NewKey, "owner" | "prefix">,
): Promise<string | null> => {
  const [row] = await runOnService(database, {
    name: "revoke-owned-key",
    text: `update service.api_key set revoked_at = coalesce(revoked_at, now()) where owner = $1 and prefix = $2
      returning hash`,
    values: [owner, prefix],
  });
  return row ? String(row[0]) : null;
};
