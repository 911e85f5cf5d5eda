import pg from "pg";

/** Databases that every role may connect to by default, and fill with temporary tables and large objects. */
const OPEN_DATABASES = ["postgres", "template1"];

const SELECT_DATABASES = `
  select datname as name, pg_has_role(datdba, 'usage') as "mayClose", exists (
    select from aclexplode(coalesce(datacl, acldefault('d', datdba)))
    where grantee = 0 and privilege_type in ('CONNECT', 'TEMPORARY')) as "isOpen"
  from pg_database where datname = any ($1) and datname <> current_database()`;

/** Replicas and their operators ask the primary over the database postgres: CloudNativePG, Patroni, pg_rewind. */
const SELECT_REPLICATORS = "select rolname as name from pg_roles where rolreplication and rolcanlogin and not rolsuper";

/** Another session has changed the same row, for which Postgres has no code of its own; or it has dropped a role. */
const CHANGED_MEANWHILE = ["XX000", "42704"];
const ATTEMPTS = 5;

/**
 * Revokes the right to connect to these databases from public; roles for replication keep it. In no transaction: a second
 * "npm run roles" on the same server would wait for its end, and fail.
 * @returns those that only their owner or a superuser can close
 */
export const closeDatabases = async (client: pg.Client): Promise<string[]> => {
  for (let attempt = 1; ; attempt++) {
    type Database = { name: string; mayClose: boolean; isOpen: boolean };
    const { rows: databases } = await client.query<Database>(SELECT_DATABASES, [OPEN_DATABASES]);
    const { rows: replicators } = await client.query<{ name: string }>(SELECT_REPLICATORS);
    const roles = replicators.map(({ name }) => pg.escapeIdentifier(name)).join(", ");
    try {
      for (const { name, isOpen } of databases.filter(({ mayClose }) => mayClose)) {
        const database = pg.escapeIdentifier(name);
        if (roles) await client.query(`grant connect on database ${database} to ${roles}`);
        if (isOpen) await client.query(`revoke connect, temporary on database ${database} from public`);
      }
      return databases.flatMap(({ name, mayClose, isOpen }) => (isOpen && !mayClose ? name : []));
    } catch (error) {
      const { code = "" } = error instanceof pg.DatabaseError ? error : {};
      if (!CHANGED_MEANWHILE.includes(code) || attempt === ATTEMPTS) throw error;
    }
  }
};
