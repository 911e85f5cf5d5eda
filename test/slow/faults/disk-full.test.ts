import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { describe, expect } from "vitest";
import { test as base, expectSurvival } from "./survive.ts";

// The tables are on a small disk that fills up. The write-ahead log is elsewhere: without space for it, Postgres stops.

const SIZE_MB = 48;
const FULL_MS = 8_000;

const run = promisify(execFile);

/** Mounts a small file system in memory, which needs root. */
const mountSmallDisk = async () => {
  const directory = await mkdtemp(join(tmpdir(), "delegation-registry-disk-"));
  const removeDirectory = () => rm(directory, { recursive: true, force: true });
  try {
    await run("mount", ["-t", "tmpfs", "-o", `size=${SIZE_MB}m,mode=0755`, "tmpfs", directory]);
  } catch (error) {
    await removeDirectory();
    throw error;
  }
  return {
    directory,
    remove: async () => {
      await run("umount", ["-l", directory]);
      await removeDirectory();
    },
  };
};

const canMount = async (): Promise<boolean> => {
  if (userInfo().uid !== 0) return false;
  const disk = await mountSmallDisk().catch(() => null);
  await disk?.remove();
  return disk !== null;
};
const isPossible = await canMount();

const test = base
  .extend("disk", { scope: "file" }, async ({}, { onCleanup }) => {
    const disk = await mountSmallDisk();
    onCleanup(disk.remove);
    return disk.directory;
  })
  .override("createDatabase", ({ disk }) => async (postgres) => {
    const space = join(disk, "tables");
    await mkdir(space, { mode: 0o700 });
    await run("chown", ["postgres", space]);
    await postgres.withClient((client) => client.query(`create tablespace small location '${space}'`));
    await postgres.withClient((client) => client.query("create database small tablespace small"));
    return new URL("/small", postgres.url).href;
  });

describe.skipIf(!isPossible)(
  isPossible ? "disk-full" : "disk-full [LEFT OUT: needs root, to make a small disk]",
  () => {
    test("an index on a full disk stays at its block, logs why, and continues when there is space again", async ({
      disk,
      stack,
    }) => {
      const ballast = join(disk, "ballast");
      const readIndexed = async () => (await stack.readIndexedBlocks()).get(1) ?? 0;
      let stayedFor = 0;
      const run = async () => {
        await writeFile(ballast, Buffer.alloc(SIZE_MB * 2 ** 20)).catch(() => {});
        // Postgres can still write to existing pages for a while.
        let last = await readIndexed();
        for (const endsAt = Date.now() + FULL_MS; Date.now() < endsAt; await sleep(500)) {
          const now = await readIndexed();
          stayedFor = now === last ? stayedFor + 1 : 0;
          last = now;
        }
        await rm(ballast);
      };
      await expectSurvival(stack, { name: "disk-full", run });
      expect(stayedFor).toBeGreaterThan(3);
      expect(stack.indexer.output()).toMatch(/No space left on device|could not extend file/);
    });
  },
);
