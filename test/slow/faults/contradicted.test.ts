import { expect, test } from "vitest";
import { startTestApi } from "../../support/api.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { createRandomChain } from "../../support/indexed-chain.ts";
import { startIndexer } from "../../support/indexer.ts";
import { connectClient, createDatabase, waitUntil, waitUntilIndexed } from "../../support/setup.ts";

const chainId = 8453;

test("a wallet about which a proof contradicts the index is compared next, and the index repaired", async () => {
  const { local } = await createRandomChain(chainId, 94, 60);
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  // It compares no wallets in turn.
  const env = { VERIFICATION_REQUESTS_PER_DAY: "0" };
  const indexer = await startIndexer({ databaseUrl, chains: [{ chainId, url: local.url }], env });
  await waitUntilIndexed(database, local);
  const api = await startTestApi({ databaseUrl, env: { [`PROOF_RPC_URL_${chainId}`]: local.url } });
  const schema = await readServedSchema(database);
  const { rows } = await database.query(
    `select vault, delegate from "${schema}".delegation_v2 where type = 'ALL' and rights = '0x${"0".repeat(64)}' and block_number < 30 limit 2`,
  );
  const ask = async ({ vault, delegate }: { vault: string; delegate: string }) => {
    const response = await api.get(`/registry/v2/check/all?to=${delegate}&from=${vault}&chainId=${chainId}&proof=true`);
    const { result, type } = (await response.json()) as { result?: boolean; type?: string };
    return result ?? type;
  };
  // What a provider lost; what only the log lacks, and what only the state of now.
  const lost = [["delegation_change", "delegation_v2"], ["delegation_change"], ["delegation_v2"]];
  for (const [place, tables] of lost.entries()) {
    const wallets = rows[place % rows.length];
    expect(await ask(wallets)).toBe(true);
    const { length } = indexer.output();
    await database.query("set session_replication_role = replica");
    for (const table of tables) {
      const { rowCount } = await database.query(
        `delete from "${schema}".${table} where vault = $1 and delegate = $2 and type = 'ALL' and rights = '0x${"0".repeat(64)}'`,
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
});
