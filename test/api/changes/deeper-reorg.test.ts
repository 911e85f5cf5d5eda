import { expect, test } from "vitest";
import type { Position } from "../../../api/changes/change-cursor.ts";
import { readChanges } from "../../../api/changes/read-changes.ts";
import type { Database } from "../../../api/database/database.ts";
import { Problem } from "../../../api/problem.ts";
import { OTHER } from "../../support/api.ts";
import { openSampleLog } from "../../support/changes.ts";

const CHAIN = 1;

test("readChanges() undoes more if a reorg goes deeper while changes are read again", async () => {
  const { client, schema, database, shards } = await openSampleLog();

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
