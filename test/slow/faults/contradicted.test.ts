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
    `select vault, delegate from "${schema}".delegation_v2 where type = 'ALL' and rights = '0x${"0".repeat(64)}' limit 1`,
  );
  const [{ vault, delegate }] = rows;
  const ask = async () => {
    const response = await api.get(`/registry/v2/check/all?to=${delegate}&from=${vault}&chainId=${chainId}&proof=true`);
    const { result, type } = (await response.json()) as { result?: boolean; type?: string };
    return result ?? type;
  };
  expect(await ask()).toBe(true);

  // An event that a provider lost.
  await database.query("set session_replication_role = replica");
  for (const table of ["delegation_change", "delegation_v2"]) {
    await database.query(
      `delete from "${schema}".${table} where vault = $1 and delegate = $2 and type = 'ALL' and rights = '0x${"0".repeat(64)}'`,
      [vault, delegate],
    );
  }
  await database.query("reset session_replication_role");
  expect(await ask()).toBe("/docs#problem-index-differs");
  await waitUntil(
    "the indexer confirms it",
    () => indexer.output(),
    60,
    (output) => output.includes("The chain is not answered for until its index is repaired"),
  );
  expect(await waitUntil("the index is repaired", ask, 120, (answer) => answer === true)).toBe(true);
});
