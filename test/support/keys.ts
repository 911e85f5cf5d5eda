import pg from "pg";
import { onTestFinished } from "vitest";
import { generateKey, hashKey, prefixOf } from "../../api/keys/api-key.ts";
import { uniqueName } from "./unique-name.ts";

/** Inserts a new key, like `npm run keys -- create`. */
export const addKey = async (database: pg.Client, name = "test"): Promise<{ key: string; id: string }> => {
  const key = generateKey();
  const { rows } = await database.query(
    "insert into service.api_key (name, prefix, hash) values ($1, $2, $3) returning id",
    [name, prefixOf(key), hashKey(key)],
  );
  return { key, id: String(rows[0]?.id) };
};

export const endKey = (database: pg.Client, key: string) =>
  database.query("update service.api_key set revoked_at = now() where prefix = $1", [prefixOf(key)]);

/** A key with a typo. */
export const misspell = (key: string): string => `${key.slice(0, -1)}${key.endsWith("x") ? "y" : "x"}`;

/** The secret part of a key. */
export const secretOf = (key: string): string => key.slice(prefixOf(key).length, -"cccccc".length);

/** A role that may only connect to a database, until the test is over. */
export const createRole = async (databaseUrl: string): Promise<{ url: string; role: string }> => {
  const role = uniqueName("role");
  const runAsOwner = async (text: string) => {
    const client = new pg.Client(databaseUrl);
    await client.connect();
    await client.query(text).finally(() => client.end());
  };
  await runAsOwner(`create role ${role} login password 'pass'`);
  onTestFinished(() => runAsOwner(`drop owned by ${role}; drop role ${role}`));
  const url = new URL(databaseUrl);
  [url.username, url.password] = [role, "pass"];
  return { url: url.href, role };
};
