import { randomBytes } from "node:crypto";
import pg from "pg";
import { asAdministrator, readDatabase, runTransaction } from "./administrator.ts";
import { createRole } from "./create-role.ts";
import { grantReading } from "./grant-reading.ts";
import { limitAnalyst } from "./limit-analyst.ts";
import type { AnalystSettings } from "./settings.ts";

/**
 * Creates a login for one analyst, or gives it another password. It has the same rights and limits as the role that
 * analysts share, and is no member of it: a member could change that role's password and drop its default privileges.
 * @returns the password
 */
export const createAnalyst = async (databaseUrl: string, { name, indexer }: AnalystSettings): Promise<string> => {
  const password = randomBytes(24).toString("base64url");
  await asAdministrator(databaseUrl, ({ client, isSuperuser }) =>
    runTransaction(client, async () => {
      await requireAnalyst(client, name, indexer);
      await createRole({ client, isSuperuser }, { name, password });
      await limitAnalyst({ client, isSuperuser }, name, indexer);
      await client.query(`grant connect on database ${await readDatabase(client)} to ${pg.escapeIdentifier(name)}`);
      await grantReading(client, "analytics", indexer, name);
    }),
  );
  return password;
};

/** Throws if another role has this name, or the service's roles do not exist yet. */
const requireAnalyst = async (client: pg.Client, name: string, indexer: string): Promise<void> => {
  const { rows } = await client.query<{ isReady: boolean; isTaken: boolean }>(
    `select to_regrole($2) is not null and to_regnamespace('analytics') is not null as "isReady",
       to_regrole($1) is not null and not exists (
         select from pg_auth_members where roleid = to_regrole($1) and member = to_regrole($2)) as "isTaken"`,
    [name, indexer],
  );
  if (!rows[0]?.isReady) throw new Error('The database has no roles yet: run "npm run roles" first.');
  if (rows[0].isTaken) throw new Error(`The role ${name} exists and is no analyst's. Choose another name.`);
};
