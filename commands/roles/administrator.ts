import pg from "pg";

const CONNECT_TIMEOUT_MS = 10_000;
/** Statements that wait for a lock on a table in use block every later query of it. */
const SET_LOCK_TIMEOUT = "set local lock_timeout = '2s'";
const LOCK_NOT_AVAILABLE = "55P03";

/** An administrator's connection. */
export type Administrator = { client: pg.Client; isSuperuser: boolean };

/** Connects as an administrator for the duration of a function. */
export const asAdministrator = async <T>(
  databaseUrl: string,
  run: (administrator: Administrator) => Promise<T>,
): Promise<T> => {
  const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  client.on("error", () => {});
  try {
    await client.connect();
    return await run({ client, isSuperuser: await readIsSuperuser(client) });
  } finally {
    await client.end().catch(() => {});
  }
};

/** Runs a transaction, unless it would wait for tables in use. */
export const runTransaction = async <T>(client: pg.Client, run: () => Promise<T>): Promise<T> => {
  try {
    await client.query("begin");
    await client.query(SET_LOCK_TIMEOUT);
    const result = await run();
    await client.query("commit");
    return result;
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || error.code !== LOCK_NOT_AVAILABLE) throw error;
    throw new Error("The tables are in use. Stop the indexers and APIs of this database first; nothing was changed.", {
      cause: error,
    });
  }
};

const readIsSuperuser = async (client: pg.Client): Promise<boolean> => {
  const { rows } = await client.query<{ rolsuper: boolean }>(
    "select rolsuper from pg_roles where rolname = current_user",
  );
  return rows[0]?.rolsuper === true;
};

/** @returns the quoted name of the connection's database */
export const readDatabase = async (client: pg.Client): Promise<string> => {
  const { rows } = await client.query<{ name: string }>("select current_database() as name");
  return pg.escapeIdentifier(rows[0]?.name ?? "");
};
