import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import type { Position } from "../../../api/changes/change-cursor.ts";
import { readChanges } from "../../../api/changes/read-changes.ts";
import { Database } from "../../../api/database/database.ts";
import { Problem } from "../../../api/problem.ts";
import { parseApiSettings } from "../../../api/settings.ts";
import { Shards } from "../../../api/shards/shards.ts";
import { createSampleDatabase, FRESH_FOR_A_DAY, OTHER } from "../../support/api.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { connectClient } from "../../support/setup.ts";
import { setFinalBlock } from "../../support/wallets.ts";

const CHAIN = 1;

test("readChanges() undoes more if a reorg goes deeper while changes are read again", async () => {
  const databaseUrl = await createSampleDatabase();
  const client = await connectClient(databaseUrl);
  // Without Ponder's triggers.
  await client.query("set session_replication_role = replica");
  const schema = await readServedSchema(client);
  await setFinalBlock(client, schema, 0);
  const database = new Database(databaseUrl, pino({ enabled: false }));
  onTestFinished(() => database.close());
  const shards = new Shards(database, parseApiSettings(FRESH_FOR_A_DAY));
  await shards.refresh();

  /** What happens to the chain after each read. */
  const reorgs: (() => Promise<unknown>)[] = [];
  const readThenReorg: Database["read"] = async (...parameters) => {
    const rows = await database.read(...parameters);
    await reorgs.shift()?.();
    return rows;
  };
  const read = async (position: Position | null) => {
    const asked = { chainId: CHAIN, position };
    const question = {
      filters: { registry: "both" },
      finality: "latest",
      since: 0,
      rows: 1_000,
      pool: "changes",
    } as const;
    const found = (await readChanges({ read: readThenReorg }, shards, question, [asked])).get(asked);
    if (!found || found instanceof Problem) throw new Error("The network cannot be answered for.", { cause: found });
    return found;
  };
  const before = await read(null);
  const blocks = [...new Set(before.changes.map(({ row }) => Number(row.blockNumber)))];
  const [deeper = 0, newest = 0] = blocks.slice(-2);

  const change = (sql: string, block: number) =>
    client.query(`${sql} where chain_id = ${CHAIN} and block_number = $1`, [block]);
  await change(`delete from ${schema}.delegation_change`, newest);
  reorgs.push(() => change(`update ${schema}.delegation_change set delegate = '${OTHER.toLowerCase()}'`, deeper));
  const after = await read(before.position);
  expect(after.undoTo?.block).toBe(deeper - 1);
  expect(after.changes.map(({ row }) => [Number(row.blockNumber), row.delegate])).toEqual(
    before.changes.filter(({ row }) => Number(row.blockNumber) === deeper).map(() => [deeper, OTHER.toLowerCase()]),
  );
  expect((await read(after.position)).undoTo).toBeNull();
});
