import { readFileSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { asyncBufferFromFile, parquetMetadataAsync } from "hyparquet";
import pg from "pg";
import { beforeAll, expect, test } from "vitest";
import { createSampleDatabase } from "../../support/api.ts";
import { addChanges, createFolder, startExport } from "../../support/commands.ts";
import { connectClient, waitUntil } from "../../support/setup.ts";

const LARGE = 400_000;

let smallUrl: string;
let largeUrl: string;
beforeAll(async () => {
  smallUrl = await createSampleDatabase();
  largeUrl = await createSampleDatabase();
  const client = new pg.Client(largeUrl);
  await client.connect();
  await client.query("set synchronous_commit = off");
  await addChanges(client, LARGE);
  await client.end();
}, 300_000);

/** Reads the peak memory of a process in MB; 0 when it has ended. */
const readPeakMemory = (pid: number): number => {
  try {
    return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1000;
  } catch {
    return 0;
  }
};

// Linux tells the peak memory of a process.
test.runIf(process.platform === "linux").for([
  ["csv", 80],
  ["parquet", 20],
] as const)("export writes 400,000 rows as %s in bounded memory and reports progress", async ([format, megabytes]) => {
  const folder = await createFolder();
  const out = join(folder, "large");
  const start = (url: string, file: string) =>
    startExport(url, "--format", format, "--chain", "1", "--out", join(folder, file));
  const [small, large] = [start(smallUrl, "small"), start(largeUrl, "large")];
  const peaks = { small: 0, large: 0 };
  const watching = setInterval(() => {
    peaks.small = Math.max(peaks.small, readPeakMemory(small.pid));
    peaks.large = Math.max(peaks.large, readPeakMemory(large.pid));
  }, 20);
  const [, { code }] = await Promise.all([small.exited, large.exited]);
  clearInterval(watching);
  expect(code, large.output()).toBe(0);
  const { size } = await stat(out);
  expect(large.output()).toMatch(/400,0\d\d rows/);
  expect(peaks.small).toBeGreaterThan(0);
  expect(peaks.large - peaks.small).toBeLessThan(200);
  expect(size).toBeGreaterThan(megabytes * 1e6);
  if (format === "parquet") {
    const metadata = await parquetMetadataAsync(await asyncBufferFromFile(out));
    expect(Number(metadata.num_rows)).toBeGreaterThan(LARGE);
    expect(metadata.row_groups.length).toBeGreaterThan(10);
  }
});

test.for(["csv", "parquet"])("an interrupted export as %s leaves no file that looks complete", async (format) => {
  const folder = await createFolder();
  const startWriting = async () => {
    const started = startExport(largeUrl, "--format", format, "--chain", "1", "--out", join(folder, "large"));
    const readSize = async () => {
      const [name] = await readdir(folder);
      return name === undefined ? 0 : (await stat(join(folder, name)).catch(() => ({ size: 0 }))).size;
    };
    await waitUntil("over 1 MB is written", readSize, 60, (size) => size > 1e6);
    expect(await readdir(folder)).toEqual([expect.stringMatching(/^large\.part-\d+$/)]);
    return started;
  };

  const stopped = await startWriting();
  await stopped.stop();
  expect(await stopped.exited).toEqual({ code: 1, signal: null });
  expect(await readdir(folder)).toEqual([]);

  const disconnected = await startWriting();
  const database = await connectClient(largeUrl);
  await database.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'export' and datname = current_database()",
  );
  expect(await disconnected.exited).toEqual({ code: 1, signal: null });
  expect(await readdir(folder)).toEqual([]);

  const killed = await startWriting();
  process.kill(killed.pid, "SIGKILL");
  await killed.exited;
  expect(await readdir(folder)).toEqual([expect.stringMatching(/^large\.part-\d+$/)]);
});
