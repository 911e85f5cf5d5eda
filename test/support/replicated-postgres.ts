import { chmod, chown, cp, mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { startEmbeddedPostgres } from "../../local/embedded-postgres.ts";
import { findFreePort } from "../../process/ports.ts";
import { waitUntil } from "./setup.ts";

/** Files that a replica does not copy from the primary. */
const NOT_COPIED = ["postmaster.pid", "postmaster.opts", "server.log", "pg_wal", "pg_replslot"];

const ask = async (client: pg.Client, text: string): Promise<string> => {
  const { rows } = await client.query({ text, rowMode: "array" });
  return String(rows[0]?.[0]);
};

const withClient = async <Result>(url: string, run: (client: pg.Client) => Promise<Result>): Promise<Result> => {
  const client = new pg.Client(url);
  await client.connect();
  return run(client).finally(() => client.end());
};

/** Changes the owner of a folder to the server's user. */
const changeOwner = async (path: string, { uid, gid }: { uid: number; gid: number }): Promise<void> => {
  const names = await readdir(path, { recursive: true });
  for (const name of [".", ...names]) await chown(join(path, name), uid, gid);
};

/**
 * Starts a Postgres and a streaming replica, each of which can be stopped and started.
 * The replica cancels a statement that conflicts with recovery at once, instead of after 30 s.
 */
export const startReplicatedPostgres = async () => {
  const directory = await mkdtemp(join(tmpdir(), "delegation-registry-replica-"));
  await chmod(directory, 0o755);
  const [primaryPort, replicaPort] = [await findFreePort(), await findFreePort()];
  const start = (name: string, preferredPort: number) =>
    startEmbeddedPostgres({ directory: join(directory, name), preferredPort });
  const startPrimary = () => start("primary", primaryPort);
  const startReplica = () => start("replica", replicaPort);

  const servers = { primary: await startPrimary(), replica: await startReplica() };
  // Starting an empty server shows where the replica's files belong.
  const data = await withClient(servers.replica.url, (client) => ask(client, "show data_directory"));
  await servers.replica.stop();
  const owner = await stat(data);
  for (const name of await readdir(data)) await rm(join(data, name), { recursive: true });

  await withClient(servers.primary.url, async (client) => {
    await client.query("select pg_backup_start('replica', true)");
    const source = await ask(client, "show data_directory");
    for (const name of (await readdir(source)).filter((name) => !NOT_COPIED.includes(name))) {
      await cp(join(source, name), join(data, name), { recursive: true });
    }
    for (const name of ["pg_wal/archive_status", "pg_replslot"]) await mkdir(join(data, name), { recursive: true });
    await writeFile(join(data, "backup_label"), await ask(client, "select labelfile from pg_backup_stop(false)"));
  });
  const { hostname, username, password } = new URL(servers.primary.url);
  await writeFile(
    join(data, "postgresql.auto.conf"),
    `primary_conninfo = 'host=${hostname} port=${primaryPort} user=${username} password=${password}'
     max_standby_streaming_delay = 0
     wal_retrieve_retry_interval = '200ms'`,
  );
  await writeFile(join(data, "standby.signal"), "");
  await changeOwner(data, owner);
  servers.replica = await startReplica();

  return {
    servers,
    /** Creates a database, and returns its URL on both servers. */
    createDatabase: async (name: string) => {
      const urlOf = (server: { url: string }) => new URL(`/${name}`, server.url).href;
      const urls = { primaryUrl: urlOf(servers.primary), replicaUrl: urlOf(servers.replica) };
      await withClient(servers.primary.url, (client) => client.query(`create database ${name}`));
      const isThere = () => withClient(urls.replicaUrl, async () => true).catch(() => false);
      await waitUntil("the replica has the database", isThere);
      return urls;
    },
    startPrimary,
    startReplica,
    stop: async () => {
      await servers.replica.stop().catch(() => {});
      await servers.primary.stop().catch(() => {});
      await rm(directory, { recursive: true, force: true });
    },
  };
};
