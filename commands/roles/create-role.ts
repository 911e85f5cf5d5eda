import pg from "pg";
import type { Administrator } from "./administrator.ts";
import { deriveScramVerifier } from "./scram-verifier.ts";
import type { Role } from "./settings.ts";

/** Creates a login, or gives it another password. */
export const createRole = async ({ client, isSuperuser }: Administrator, { name, password }: Role): Promise<void> => {
  const { rows } = await client.query<{ rolsuper: boolean }>("select rolsuper from pg_roles where rolname = $1", [
    name,
  ]);
  if (rows[0]?.rolsuper) throw new Error(`The role ${name} is a superuser, which has every right. Name another role.`);
  if (!rows[0]) await client.query(`create role ${pg.escapeIdentifier(name)}`);
  await client.query(
    `alter role ${pg.escapeIdentifier(name)} login password ${pg.escapeLiteral(deriveScramVerifier(password))}`,
  );
  // Without superuser rights, only a member of a role can transfer ownership to it.
  if (!isSuperuser) await client.query(`grant ${pg.escapeIdentifier(name)} to current_user`);
};
