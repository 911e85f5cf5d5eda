import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type pg from "pg";
import { onTestFinished } from "vitest";
import { exportCommand } from "../../commands/export/export-command.ts";
import { startNode } from "../../process/child.ts";
import { readServedSchema } from "./index-copy.ts";
import { captureOutput } from "./run.ts";

/** Runs the export command in this process. */
export const runExport = async (databaseUrl: string, ...args: string[]) => {
  const lines: string[] = [];
  const code = await exportCommand(args, {
    environment: { DATABASE_URL: databaseUrl },
    say: (text) => lines.push(text),
    signal: new AbortController().signal,
  });
  return { code, output: lines.join("\n") };
};

/** Starts `npm run export`, for tests that stop it, kill it or measure its memory. */
export const startExport = (databaseUrl: string, ...args: string[]) => {
  const { output, printed } = captureOutput();
  const child = startNode(join(import.meta.dirname, "../../commands/export/main.ts"), args, {
    output,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, DATABASE_URL: databaseUrl },
  });
  return { ...child, output: printed };
};

/** Inserts changes of chain 1 between generated wallets. */
export const addChanges = async (database: pg.Client, count: number, values: object = {}) => {
  const table = `${await readServedSchema(database)}.delegation_change`;
  await database.query("set session_replication_role = replica");
  await database.query(
    `insert into ${table} select made.*
     from (select change from ${table} change where chain_id = 1 and type = 'ERC1155' limit 1) one,
       generate_series(1, $2) i,
       jsonb_populate_record(change, $1::jsonb || jsonb_build_object('ordinal', 1000 + i,
         'vault', '0x' || lpad(md5('vault' || i), 40, '0'), 'delegate', '0x' || lpad(md5('delegate' || i % 1000), 40, '0'),
         'transaction_hash', '0x' || md5('a' || i) || md5('b' || i))) made`,
    [JSON.stringify(values), count],
  );
};

/** Creates a folder that is deleted after the test. */
export const createFolder = async () => {
  const folder = await mkdtemp(join(tmpdir(), "delegation-registry-export-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
};
