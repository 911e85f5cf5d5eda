import pg from "pg";
import { onTestFinished } from "vitest";
import { migrate } from "../../api/database/migrate.ts";
import { generateKey, hashKey, prefixOf } from "../../api/keys/api-key.ts";
import { createDatabase, generateName } from "./setup.ts";

/** Creates a database with the API's own tables. */
export const createMigratedDatabase = async (): Promise<string> => {
  const url = await createDatabase();
  await migrate(url);
  return url;
};

/** Inserts a new key, like `npm run keys -- create`. */
export const addKey = async (database: pg.Client | pg.Pool, name = "test"): Promise<{ key: string; id: string }> => {
  const key = generateKey();
  const { rows } = await database.query(
    "insert into service.api_key (name, prefix, hash) values ($1, $2, $3) returning id",
    [name, prefixOf(key), hashKey(key)],
  );
  return { key, id: String(rows[0]?.id) };
};

export const revokeAddedKey = (database: pg.Client | pg.Pool, key: string) =>
  database.query("update service.api_key set revoked_at = now() where prefix = $1", [prefixOf(key)]);

/** Adds a typo to a key. */
export const misspellKey = (key: string): string => `${key.slice(0, -1)}${key.endsWith("x") ? "y" : "x"}`;

/** Extracts the secret part of a key. */
export const extractSecret = (key: string): string => key.slice(prefixOf(key).length, -"cccccc".length);

/** Creates a role that may only connect to a database. It is dropped after the test. */
export const createRole = async (databaseUrl: string): Promise<{ url: string; role: string }> => {
  const role = generateName("role");
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
