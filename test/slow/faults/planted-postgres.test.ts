import { execFile, spawn } from "node:child_process";
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { findEmbeddedPostgres, startEmbeddedPostgres } from "../../../local/embedded-postgres.ts";
import { findFreePort } from "../../../process/ports.ts";

// Root starts the embedded Postgres below a folder that only root can enter, so that it is kept in a folder that
// everyone can write to, where another user was first.

/** Any user other than root and postgres. */
const STRANGER = { uid: 65_534, gid: 65_534 };

const runAsStranger = (script: string) => promisify(execFile)("sh", ["-ec", script], { ...STRANGER, cwd: "/" });

const setUp = async () => {
  const shared = await mkdtemp(join(tmpdir(), "shared-"));
  const project = await mkdtemp(join(tmpdir(), "project-"));
  onTestFinished(async () => {
    for (const path of [shared, project]) await rm(path, { recursive: true, force: true });
  });
  // As /var/tmp.
  await chmod(shared, 0o1777);
  const directory = join(project, "postgres");
  const fallbackFolder = join(shared, "fallback");
  const start = async () => {
    const postgres = await startEmbeddedPostgres({
      directory,
      fallbackFolder,
      disposable: true,
      preferredPort: await findFreePort(),
    });
    onTestFinished(() => postgres.stop());
    return postgres;
  };
  return { shared, directory, fallbackFolder, start };
};

/** Starts it where nobody else was, to see its paths. They are the same each time. */
const findPaths = async ({ start, fallbackFolder }: Awaited<ReturnType<typeof setUp>>) => {
  const postgres = await start();
  const names = await readdir(fallbackFolder);
  await postgres.stop();
  await rm(fallbackFolder, { recursive: true });
  const find = (part: string) => join(fallbackFolder, names.find((name) => name.startsWith(part)) ?? "");
  return { binaries: find("binaries-"), data: find("data-") };
};

const isRoot = userInfo().uid === 0;

describe.skipIf(!isRoot)(isRoot ? "startEmbeddedPostgres()" : "startEmbeddedPostgres() [LEFT OUT: needs root]", () => {
  test("makes a folder that only root can write to, and uses it again", async () => {
    const { directory, fallbackFolder, start } = await setUp();
    for (const _ of ["first", "second"]) {
      const postgres = await start();
      expect(await findEmbeddedPostgres(directory, fallbackFolder)).toBe(postgres.url);
      const client = new pg.Client(postgres.url);
      await client.connect();
      await client.end();
      expect(await stat(fallbackFolder)).toMatchObject({ uid: 0, mode: 0o40711 });
      expect(await readdir(fallbackFolder)).toHaveLength(2);
      await postgres.stop();
    }
  });

  test("runs no program that another user put there", async () => {
    const attacked = await setUp();
    const { binaries } = await findPaths(attacked);
    const trace = join(attacked.shared, "trace");
    await runAsStranger(`
      mkdir -p ${binaries}/bin
      for program in initdb pg_ctl postgres; do
        printf '#!/bin/sh\\nid >> ${trace}\\n' > ${binaries}/bin/$program
        chmod 755 ${binaries}/bin/$program
      done
      touch ${trace}; chmod 666 ${trace}`);
    await expect(attacked.start()).rejects.toThrow(`${attacked.fallbackFolder} may be another user's trap`);
    expect(await readFile(trace, "utf8")).toBe("");
  });

  test("follows no link of another user, and changes nothing behind it", async () => {
    const attacked = await setUp();
    const { data } = await findPaths(attacked);
    const { shared, fallbackFolder, start } = attacked;
    const own = join(shared, "own");
    const file = join(own, "file");
    await mkdir(own);
    await writeFile(file, "kept");
    await runAsStranger(`ln -s ${own} ${fallbackFolder}`);
    await expect(start()).rejects.toThrow("not a link");
    expect(await readdir(own)).toEqual(["file"]);

    await rm(fallbackFolder);
    await runAsStranger(`mkdir -m 777 ${fallbackFolder}; ln -s ${file} ${data}.password`);
    await expect(start()).rejects.toThrow("Remove it, or move the project");
    expect(await readFile(file, "utf8")).toBe("kept");
    expect(await stat(file)).toMatchObject({ uid: 0 });
  });

  test("refuses its own folder if others can write to it, and foreign parts of it", async () => {
    const { fallbackFolder, start, ...attacked } = await setUp();
    const { binaries, data } = await findPaths({ fallbackFolder, start, ...attacked });
    await mkdir(fallbackFolder);
    await chmod(fallbackFolder, 0o777);
    await expect(start()).rejects.toThrow(`${fallbackFolder} may be`);
    await chmod(fallbackFolder, 0o711);

    for (const path of [binaries, data]) {
      await mkdir(path);
      await chown(path, STRANGER.uid, STRANGER.gid);
      await expect(start()).rejects.toThrow(`${path} may be`);
      await rm(path, { recursive: true });
      await symlink(tmpdir(), path);
      await expect(start()).rejects.toThrow(`${path} may be`);
      await rm(path);
    }
    await start();
  });

  test("findEmbeddedPostgres() does not return the server of another user", async () => {
    const attacked = await setUp();
    const { data } = await findPaths(attacked);
    const server = spawn("sh", ["-c", "sleep 600; true", data], { ...STRANGER, cwd: "/", detached: true });
    onTestFinished(() => void process.kill(-Number(server.pid)));
    await runAsStranger(`
      mkdir -p ${data}
      echo theirs > ${data}/password
      printf '${server.pid}\\n\\n\\n5432\\n' > ${data}/postmaster.pid`);
    expect(await findEmbeddedPostgres(attacked.directory, attacked.fallbackFolder)).toBeNull();
  });
});
