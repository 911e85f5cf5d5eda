import pg from "pg";

/** Databases that every role may connect to by default, and fill with temporary tables and large objects. */
const OPEN_DATABASES = ["postgres", "template1"];

const SELECT_OPEN = `
  select datname as name, pg_has_role(datdba, 'usage') as "mayClose" from pg_database
  where datname = any ($1) and datname <> current_database() and exists (
    select from aclexplode(coalesce(datacl, acldefault('d', datdba)))
    where grantee = 0 and privilege_type in ('CONNECT', 'TEMPORARY'))`;

/** Postgres has no other code for a row that another session has changed at the same time. */
const INTERNAL_ERROR = "XX000";
const ATTEMPTS = 5;

/**
 * Revokes the right to connect to these databases from public. In no transaction: a second "npm run roles" on the same
 * server would wait for its end, and fail.
 * @returns those that only their owner or a superuser can close
 */
export const closeDatabases = async (client: pg.Client): Promise<string[]> => {
  for (let attempt = 1; ; attempt++) {
    const { rows } = await client.query<{ name: string; mayClose: boolean }>(SELECT_OPEN, [OPEN_DATABASES]);
    try {
      for (const { name } of rows.filter(({ mayClose }) => mayClose)) {
        await client.query(`revoke connect, temporary on database ${pg.escapeIdentifier(name)} from public`);
      }
      return rows.flatMap(({ name, mayClose }) => (mayClose ? [] : name));
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || error.code !== INTERNAL_ERROR || attempt === ATTEMPTS) throw error;
    }
  }
};
