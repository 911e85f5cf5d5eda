import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type pg from "pg";
import { type Hex, zeroAddress } from "viem";
import { expect, test } from "vitest";
import { registryV1Abi, registryV2Abi } from "../../registry/abi.ts";
import { startApi } from "../support/api.ts";
import type { DelegationV1, DelegationV2 } from "../support/index-state.ts";
import { Random } from "../support/random.ts";
import { digestLine, digestOf, REGISTRIES, readDigest } from "../support/registry-digest.ts";
import { connect, createDatabase, startIndexer, until, untilAnalytics, untilIndexed } from "../support/setup.ts";
import { Subject } from "../support/subject.ts";

/** All that a registry says is delegated by the wallets of a chain, a line each. */
const linesOf = async (
  { local, world }: Subject,
  registry: (typeof REGISTRIES)[number],
  blockNumber: bigint,
): Promise<string[]> => {
  const { client, chainId } = local;
  const lines: string[] = [];
  const add = (delegation: DelegationV1 | DelegationV2) => lines.push(digestLine(chainId, registry, delegation));
  for (const { address: vault } of world.wallets) {
    if (registry === "v2") {
      const types = ["ALL", "CONTRACT", "ERC721", "ERC20", "ERC1155"] as const;
      const call = { abi: registryV2Abi, address: world.v2, args: [vault], blockNumber } as const;
      const made = await client.readContract({ ...call, functionName: "getOutgoingDelegations" });
      for (const { type_, to: delegate, contract_: contract, tokenId, rights, amount } of made) {
        const type = types[type_ - 1];
        if (type) add({ type, vault, delegate, contract, tokenId, rights, amount });
      }
      continue;
    }
    const call = { abi: registryV1Abi, address: world.v1, args: [vault], blockNumber } as const;
    for (const delegate of await client.readContract({ ...call, functionName: "getDelegatesForAll" })) {
      add({ type: "ALL", vault, delegate, contract: zeroAddress, tokenId: 0n });
    }
    const contracts = await client.readContract({ ...call, functionName: "getContractLevelDelegations" });
    for (const { delegate, contract_: contract } of contracts) {
      add({ type: "CONTRACT", vault, delegate, contract, tokenId: 0n });
    }
    const tokens = await client.readContract({ ...call, functionName: "getTokenLevelDelegations" });
    for (const { delegate, contract_: contract, tokenId } of tokens) {
      add({ type: "TOKEN", vault, delegate, contract, tokenId });
    }
  }
  return lines;
};

/** The digests of both registries at some blocks, which the registries have to bear out. */
const expectDigests = async (database: pg.Client, subject: Subject, blocks: readonly bigint[]): Promise<string[]> => {
  const { chainId } = subject.local;
  const digests: string[] = [];
  for (const block of blocks) {
    for (const registry of REGISTRIES) {
      const digest = await readDigest(database, chainId, registry, block);
      expect(digest, `${registry} at block ${block}`).toBe(digestOf(await linesOf(subject, registry, block)));
      digests.push(digest);
    }
  }
  return digests;
};

test("the digest is what the registries' own answers give, at any block, through a reorg, and in any deployment", async () => {
  const subject = await Subject.create(8453, new Random(31));
  await subject.mineRandomBlocks(60);
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  await startIndexer({ databaseUrl, chains: [subject.local] });
  await untilIndexed(database, subject.local);
  await untilAnalytics(database);
  const head = await subject.local.client.getBlockNumber();

  const past = [0n, 5n, 20n, head - 12n];
  const before = await expectDigests(database, subject, [...past, head - 1n, head]);
  expect(new Set(before.slice(2)).size).toBeGreaterThan(8);
  for (const registry of REGISTRIES) {
    expect(await readDigest(database, 8453, registry)).toBe(await readDigest(database, 8453, registry, head));
  }

  // Up to where a fork begins, nothing changes; after it, all is as the new one has it.
  await subject.chain.takeBack(6);
  await subject.mineRandomBlocks(8);
  await untilIndexed(database, subject.local);
  const newHead = await subject.local.client.getBlockNumber();
  const after = await expectDigests(database, subject, [...past, newHead - 3n, newHead]);
  expect(after.slice(0, past.length * 2)).toEqual(before.slice(0, past.length * 2));
  expect(after.at(-1)).not.toBe(before.at(-1));

  // Another deployment, which has seen no reorg: a shard of another name in another database.
  const otherUrl = await createDatabase();
  const other = await connect(otherUrl);
  await startIndexer({ databaseUrl: otherUrl, chains: [subject.local], env: { SHARD: "elsewhere" } });
  await untilIndexed(other, subject.local, { schema: "elsewhere" });
  await untilAnalytics(other);
  for (const registry of REGISTRIES) {
    for (const block of [null, newHead, newHead - 7n, 20n]) {
      expect(await readDigest(other, 8453, registry, block)).toBe(await readDigest(database, 8453, registry, block));
    }
  }

  // Every part of a delegation counts, and how many there are; when it was made does not.
  const [v1, v2] = [await readDigest(database, 8453, "v1"), await readDigest(database, 8453, "v2")];
  const { rows: shards } = await database.query<{ schema: string }>("select schema from indexer.shard");
  const table = `${shards[0]?.schema}.delegation_v2`;
  const { rows } = await database.query<{ ctid: string }>(`select ctid from ${table} limit 1`);
  const digestAfter = async (statement: string) => {
    await database.query("begin; set local session_replication_role = replica");
    await database.query(`${statement} where ctid = '${rows[0]?.ctid}'`);
    const digests = [await readDigest(database, 8453, "v1"), await readDigest(database, 8453, "v2")];
    await database.query("rollback");
    return digests;
  };
  const seen = new Set([v2]);
  const unknown: Hex = "0x00000000000000000000000000000000000000ff";
  for (const change of [
    "type = case type when 'ALL' then 'ERC20' else 'ALL' end",
    `vault = '${unknown}'`,
    `delegate = '${unknown}'`,
    `contract = '${unknown}'`,
    "token_id = token_id - 12",
    `rights = '0x${"ab".repeat(32)}'`,
    "amount = 77",
  ]) {
    const [sameV1, changed] = await digestAfter(`update ${table} set ${change}`);
    expect(sameV1).toBe(v1);
    expect(seen, change).not.toContain(changed);
    seen.add(String(changed));
  }
  expect(seen).not.toContain((await digestAfter(`delete from ${table}`))[1]);
  expect(await digestAfter(`update ${table} set block_number = 1, log_index = 9, transaction_hash = '0x'`)).toEqual([
    v1,
    v2,
  ]);

  // Where nothing is known, nothing is said.
  await expect(readDigest(database, 8453, "v2", newHead + 1n)).rejects.toThrow("is not indexed yet");
  await expect(readDigest(database, 1, "v2")).rejects.toThrow("Chain 1 is not indexed here");
  await expect(readDigest(database, 8453, "v3")).rejects.toThrow("registry must be v1 or v2");
});

test("/status tells the digests at the newest thousandth block that is final, and what they are of", async () => {
  const subject = await Subject.create(10, new Random(32));
  await subject.mineRandomBlocks(20);
  const { client } = subject.local;
  while ((await client.getBlockNumber()) < 995n) await client.mine({ blocks: 1 });
  // Some before the thousandth block, and some after it, until that is final.
  await subject.mineRandomBlocks(45);
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  await startIndexer({ databaseUrl, chains: [subject.local] });
  await untilIndexed(database, subject.local);
  await untilAnalytics(database);

  const api = await startApi({ databaseUrl });
  const readStatus = async () => {
    const status = (await (await api.get("/status")).json()) as { chains: { stateDigest: unknown }[] };
    return status.chains[0]?.stateDigest ?? null;
  };
  await until("the digests are there", async () => (await readStatus()) !== null, 60);
  const [v1, v2] = await expectDigests(database, subject, [1000n]);
  expect(await readStatus()).toEqual({ block: 1000, v1, v2 });
  expect(v2).not.toBe(await readDigest(database, 10, "v2"));
});

test("the example of docs/digest.md is right", () => {
  const text = readFileSync(join(import.meta.dirname, "../../docs/digest.md"), "utf8");
  const lines = text.match(/^1 v2 .*$/gm) ?? [];
  expect(lines).toHaveLength(2);
  expect(text).toContain(`\`${digestOf(lines)}\``);
  for (const line of lines) expect(text).toContain(createHash("sha256").update(line).digest("hex"));
});
