import { execFile } from "node:child_process";
import { chown, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { findFreePort } from "../../process/ports.ts";

const run = promisify(execFile);

/** Folder of a distribution's Postgres: one for each major version. */
const VERSIONS = "/usr/lib/postgresql";

const findBinaries = async (): Promise<string> => {
  const versions = (await readdir(VERSIONS)).sort((a, b) => Number(b) - Number(a));
  return join(VERSIONS, versions[0] ?? "", "bin");
};

/** Postgres refuses to run as root. */
const findUser = async () => {
  if (userInfo().uid !== 0) return {};
  const id = async (flag: string) => Number((await run("id", [flag, "postgres"])).stdout);
  return { uid: await id("-u"), gid: await id("-g") };
};

/**
 * Starts an empty cluster of the distribution's Postgres, whose pg_dump fits: the embedded one has no programs for clients.
 * The caller stops it.
 */
export const startSystemPostgres = async () => {
  const binaries = await findBinaries();
  const user = await findUser();
  const data = await mkdtemp(join(tmpdir(), "delegation-registry-system-postgres-"));
  if (user.uid !== undefined) await chown(data, user.uid, user.gid);
  const port = await findFreePort();
  const runServerProgram = (name: string, ...args: string[]) =>
    run(join(binaries, name), ["-D", data, ...args], { ...user, cwd: "/" });
  await runServerProgram("initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync");
  const flags = `-c port=${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off`;
  // The server must not keep a pipe of this process open.
  await runServerProgram("pg_ctl", "-w", "-l", join(data, "server.log"), "-o", flags, "start");
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  return {
    url,
    /** Runs a client program of the same version, and returns its output. */
    runClient: async (name: "pg_dump" | "pg_restore", ...args: string[]) =>
      (await run(join(binaries, name), args, { maxBuffer: 2 ** 28 })).stdout,
    stop: async () => {
      await runServerProgram("pg_ctl", "-w", "-m", "immediate", "stop");
      await rm(data, { recursive: true, force: true });
    },
  };
};

/** Programs that tests with such a cluster need, of Debian's package postgresql. */
export const SYSTEM_POSTGRES = ["pg_dump", "pg_ctlcluster"];
