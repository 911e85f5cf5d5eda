import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { describe } from "vitest";
import { findFreePort } from "../../process/ports.ts";
import { captureOutput, findProgram, ROOT } from "./run.ts";
import { waitUntil } from "./setup.ts";

const program = findProgram("pgbouncer");

/** The first version that keeps prepared statements in transaction mode. */
const FIRST = [1, 21];

const isFit = (): boolean => {
  if (program === null) return false;
  const [, major, minor] =
    /PgBouncer (\d+)\.(\d+)/.exec(execFileSync(program, ["--version"], { encoding: "utf8" })) ?? [];
  return Number(major) > Number(FIRST[0]) || Number(minor) >= Number(FIRST[1]);
};

/** Describes tests that need a PgBouncer with prepared statements. Without one they are skipped, and the title says why. */
export const describeWithPgBouncer = (title: string, tests: () => void) =>
  describe.skipIf(!isFit())(
    isFit() ? title : `${title} [LEFT OUT: needs pgbouncer ${FIRST.join(".")} or newer]`,
    tests,
  );

/** The settings of docs/scaling.md. */
const readDocumentedSettings = () => {
  const text = readFileSync(join(ROOT, "docs/scaling.md"), "utf8");
  const [, connectQuery] = /^\S+ = host=.*(connect_query='.*')$/m.exec(text) ?? [];
  const [, settings] = /^\[pgbouncer\]\n(.*?)\n```/ms.exec(text) ?? [];
  if (!connectQuery || !settings) throw new Error("docs/scaling.md has no settings for PgBouncer.");
  return { connectQuery, settings };
};

/** Launches PgBouncer in front of all databases of a server, with the settings of docs/scaling.md. The caller stops it. */
export const launchPgBouncer = async (serverUrl: string) => {
  const { hostname, port: serverPort, username, password } = new URL(serverUrl);
  const { connectQuery, settings } = readDocumentedSettings();
  const port = await findFreePort();
  const folder = await mkdtemp(join(tmpdir(), "pgbouncer-"));
  // PgBouncer runs as nobody if this is root.
  await chmod(folder, 0o755);
  const [file, users] = [join(folder, "pgbouncer.ini"), join(folder, "userlist.txt")];
  await writeFile(users, `"${username}" "${password}"\n`);
  const lines = [
    "[databases]",
    `* = host=${hostname} port=${serverPort} ${connectQuery}`,
    "[pgbouncer]",
    settings.replace(/^auth_file = .*$/m, `auth_file = ${users}`),
    `admin_users = ${username}`,
    "listen_addr = 127.0.0.1",
    `listen_port = ${port}`,
    "unix_socket_dir =",
    // It refuses to run as root.
    ...(process.getuid?.() === 0 ? ["user = nobody"] : []),
  ];
  await writeFile(file, `${lines.join("\n")}\n`);
  const { output, printed } = captureOutput();
  const child = spawn(program ?? "pgbouncer", [file], { stdio: ["ignore", "pipe", "pipe"] });
  const endNow = () => child.kill("SIGKILL");
  process.once("exit", endNow);
  child.stdout.pipe(output);
  child.stderr.pipe(output);
  const exited = once(child, "exit");
  await waitUntil("PgBouncer listens", () => {
    if (child.exitCode !== null) throw new Error(`PgBouncer ended:\n${printed()}`);
    return printed().includes("process up");
  });
  const through = (databaseUrl: string) => {
    const url = new URL(databaseUrl);
    [url.hostname, url.port] = ["127.0.0.1", String(port)];
    return url.href;
  };
  return {
    /** Returns the URL of a database through PgBouncer. */
    through,
    /** Counts the connections of clients of a database, and those to the server. */
    countConnections: async (databaseUrl: string) => {
      const console = new pg.Client(through(new URL("/pgbouncer", databaseUrl).href));
      await console.connect();
      const { rows } = await console.query("show pools").finally(() => console.end());
      const own = rows.filter(({ database }) => `/${database}` === new URL(databaseUrl).pathname);
      const sum = (...names: string[]) =>
        own.reduce((total, row) => total + names.reduce((part, name) => part + Number(row[name]), 0), 0);
      return {
        clients: sum("cl_active", "cl_waiting"),
        servers: sum("sv_active", "sv_idle", "sv_used", "sv_tested", "sv_login"),
      };
    },
    stop: async () => {
      endNow();
      await exited;
      process.off("exit", endNow);
      await rm(folder, { recursive: true });
    },
  };
};
