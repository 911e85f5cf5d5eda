import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type pg from "pg";
import { expect, test } from "vitest";
import { createSampleDatabase } from "../support/api.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { computeDigest, readDigest } from "../support/index-state.ts";
import { connectClient } from "../support/setup.ts";

// test/index/differential.test.ts compares digests with the registries, during reorgs and in another deployment.

const UNKNOWN = "0x00000000000000000000000000000000000000ff";

const readBoth = async (database: pg.Client) => [
  await readDigest(database, 1, "v1"),
  await readDigest(database, 1, "v2"),
];

test("state_digest() depends on all fields of all delegations, and on nothing else", async () => {
  const database = await connectClient(await createSampleDatabase());
  const [v1, v2] = await readBoth(database);
  const table = `${await readServedSchema(database)}.delegation_v2`;
  const { rows } = await database.query(`select ctid from ${table} where chain_id = 1 limit 1`);
  const digestAfter = async (statement: string) => {
    await database.query("begin; set local session_replication_role = replica");
    await database.query(`${statement} where ctid = '${rows[0]?.ctid}'`);
    const digests = await readBoth(database);
    await database.query("rollback");
    return digests;
  };
  const seen = new Set([v2]);
  for (const change of [
    `update ${table} set type = case type when 'ALL' then 'ERC20' else 'ALL' end`,
    ...["vault", "delegate", "contract"].map((column) => `update ${table} set ${column} = '${UNKNOWN}'`),
    `update ${table} set token_id = token_id - 12`,
    `update ${table} set rights = '0x${"ab".repeat(32)}'`,
    `update ${table} set amount = 77`,
    `delete from ${table}`,
  ]) {
    const [sameV1, changed] = await digestAfter(change);
    expect(sameV1).toBe(v1);
    expect(seen, change).not.toContain(changed);
    seen.add(changed);
  }
  expect(await digestAfter(`update ${table} set block_number = 1, log_index = 9, transaction_hash = '0x'`)).toEqual([
    v1,
    v2,
  ]);
});

test("state_digest() returns the empty digest at block 0, and raises an error for an unknown block, chain or registry", async () => {
  const database = await connectClient(await createSampleDatabase());
  for (const registry of ["v1", "v2"]) {
    expect(await readDigest(database, 1, registry, 0n)).toBe(computeDigest([]));
    expect(await readDigest(database, 1, registry)).not.toBe(computeDigest([]));
  }
  await expect(readDigest(database, 1, "v2", 1_000_000n)).rejects.toThrow("is not indexed yet");
  await expect(readDigest(database, 10, "v2")).rejects.toThrow("Chain 10 is not indexed here");
  await expect(readDigest(database, 1, "v3")).rejects.toThrow("registry must be v1 or v2");
});

test("docs/digest.md has a correct example", () => {
  const text = readFileSync(join(import.meta.dirname, "../../docs/digest.md"), "utf8");
  const lines = text.match(/^1 v2 .*$/gm) ?? [];
  expect(lines).toHaveLength(2);
  expect(text).toContain(`\`${computeDigest(lines)}\``);
  for (const line of lines) expect(text).toContain(createHash("sha256").update(line).digest("hex"));
});
