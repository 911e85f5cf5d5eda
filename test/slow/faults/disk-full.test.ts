import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectSurvival, launchService } from "../../support/survive.ts";
import type { Fault } from "../soak/faults.ts";

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

describe.skipIf(!isPossible)(
  isPossible ? "disk-full" : "disk-full [LEFT OUT: needs root, to make a small disk]",
  () => {
    let disk: Awaited<ReturnType<typeof mountSmallDisk>>;
    let launched: Awaited<ReturnType<typeof launchService>>;
    beforeAll(async () => {
      disk = await mountSmallDisk();
      launched = await launchService(async (serverUrl) => {
        const space = join(disk.directory, "tables");
        await mkdir(space, { mode: 0o700 });
        await run("chown", ["postgres", space]);
        const client = new pg.Client(serverUrl);
        await client.connect();
        await client.query(`create tablespace small location '${space}'`);
        await client.query("create database small tablespace small");
        await client.end();
        const url = new URL(serverUrl);
        url.pathname = "/small";
        return url.href;
      });
    });
    afterAll(async () => {
      await launched?.stop();
      await disk?.remove();
    });

    test("an index on a full disk stays at its block, logs why, and continues when there is space again", async () => {
      const { service } = launched;
      const ballast = join(disk.directory, "ballast");
      const indexed = async () => (await service.indexedBlocks()).get(1) ?? 0;
      let stayedFor = 0;
      const diskFull: Fault = {
        name: "disk-full",
        concerns: () => true,
        run: async () => {
          await writeFile(ballast, Buffer.alloc(SIZE_MB * 2 ** 20)).catch(() => {});
          // Postgres can still write to existing pages for a while.
          let last = await indexed();
          for (const endsAt = Date.now() + FULL_MS; Date.now() < endsAt; await sleep(500)) {
            const now = await indexed();
            stayedFor = now === last ? stayedFor + 1 : 0;
            last = now;
          }
          await rm(ballast);
        },
      };
      await expectSurvival(service, diskFull);
      expect(stayedFor).toBeGreaterThan(3);
      expect(service.indexerOutput).toMatch(/No space left on device|could not extend file/);
    });
  },
);
