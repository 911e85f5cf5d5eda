import type { Hex } from "viem";
import { expect, test } from "vitest";
import { encodeV1 } from "../../../local/calls.ts";
import { startTestApi } from "../../support/api.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { createRandomChain } from "../../support/indexed-chain.ts";
import { startIndexer } from "../../support/indexer.ts";
import { connectClient, createDatabase, waitUntil, waitUntilIndexed } from "../../support/setup.ts";
import { buildTransaction } from "../../support/world.ts";

const chainId = 8453;
const NO_RIGHTS = `rights = '0x${"0".repeat(64)}'`;

test("a wallet about which a proof contradicts the index is compared next, and the index repaired", async () => {
  const subject = await createRandomChain(chainId, 94);
  const { local, world, chain } = subject;
  // Accounts that the random blocks leave alone.
  const [vault, delegate] = local.accounts.slice(8);
  if (!vault || !delegate) throw new Error("The local chain has too few accounts.");
  const sendV1 = (data: Hex) =>
    chain.mine([buildTransaction(world, { address: vault, isContract: false }, [{ target: world.v1, data }])]);
  await sendV1(encodeV1("delegateForAll", [delegate, true]));
  await subject.mineRandomBlocks(60);
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  // It compares no wallets in turn.
  const env = { VERIFICATION_REQUESTS_PER_DAY: "0" };
  const indexer = await startIndexer({ databaseUrl, chains: [{ chainId, url: local.url }], env });
  await waitUntilIndexed(database, local);
  const api = await startTestApi({ databaseUrl, env: { [`PROOF_RPC_URL_${chainId}`]: local.url } });
  const schema = await readServedSchema(database);
  type Pair = { registry: "v1" | "v2"; vault: string; delegate: string };
  const ask = async ({ registry, vault, delegate }: Pair) => {
    const wallets = registry === "v1" ? `delegate=${delegate}&vault=${vault}` : `to=${delegate}&from=${vault}`;
    const path = `/registry/${registry}/check/all?${wallets}&chainId=${chainId}&proof=true`;
    const response = await api.get(path);
    const { result, type } = (await response.json()) as { result?: boolean; type?: string };
    return result ?? type;
  };
  const { rows } = await database.query(
    `select vault, delegate from "${schema}".delegation_v2 where type = 'ALL' and ${NO_RIGHTS} and block_number < 30 limit 1`,
  );
  const ofV2: Pair = { registry: "v2", ...rows[0] };
  const ofV1: Pair = { registry: "v1", vault: vault.toLowerCase(), delegate: delegate.toLowerCase() };
  // What a provider lost; what only the log lacks, and what only the state of now.
  for (const [wallets, tables] of [
    [ofV1, ["delegation_change"]],
    [ofV2, ["delegation_change", "delegation_v2"]],
    [ofV2, ["delegation_change"]],
    [ofV2, ["delegation_v2"]],
  ] as const) {
    expect(await ask(wallets)).toBe(true);
    const { length } = indexer.output();
    await database.query("set session_replication_role = replica");
    for (const table of tables) {
      const { rowCount } = await database.query(
        `delete from "${schema}".${table} where vault = $1 and delegate = $2 and type = 'ALL'
         ${table === "delegation_change" ? `and registry = '${wallets.registry}'` : ""} and ${NO_RIGHTS}`,
        [wallets.vault, wallets.delegate],
      );
      expect(rowCount).toBeGreaterThan(0);
    }
    await database.query("reset session_replication_role");
    expect(await ask(wallets), tables.join()).toBe("/docs#problem-index-differs");
    await waitUntil(
      "the indexer confirms it",
      () => indexer.output().slice(length),
      60,
      (output) => output.includes("The chain is not answered for until its index is repaired"),
    );
    const answer = () => ask(wallets);
    expect(await waitUntil("the index is repaired", answer, 120, (answered) => answered === true)).toBe(true);
  }
  // The vault's list of v1 has been made anew with its log.
  await sendV1(encodeV1("revokeAllDelegates", []));
  await waitUntilIndexed(database, local);
  expect(await ask(ofV1)).toBe(false);
});
