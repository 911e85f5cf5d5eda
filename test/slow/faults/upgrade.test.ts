import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { encodeV2 } from "../../../local/calls.ts";
import { startTestApi } from "../../support/api.ts";
import { CHAIN_ID, mine, startEarlierChain } from "../../support/earlier-version/chain.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { startIndexer } from "../../support/indexer.ts";
import { connectClient, createDatabase, waitUntil, waitUntilIndexed } from "../../support/setup.ts";

const FOLDER = join(import.meta.dirname, "../../support/earlier-version");

/** What version 0.1.0 has stored. */
const restoreEarlierDatabase = async (): Promise<string> => {
  const databaseUrl = await createDatabase();
  const client = new pg.Client(databaseUrl);
  await client.connect();
  await client.query(gunzipSync(readFileSync(join(FOLDER, "database.sql.gz"))).toString());
  await client.end();
  return databaseUrl;
};

test("an update from 0.1.0 keeps keys, and no answer fails while the new index is built beside the old one", async () => {
  const { key, revokedKey } = JSON.parse(readFileSync(join(FOLDER, "keys.json"), "utf8"));
  const { chain, vault, hot, v2, answers } = await startEarlierChain();
  onTestFinished(() => chain.stop());
  const databaseUrl = await restoreEarlierDatabase();
  const database = await connectClient(databaseUrl);
  const old = await readServedSchema(database);
  const { rows } = await database.query(`select number, hash from ${old}.indexed_block`);
  expect(rows, "Run test/support/earlier-version/make.ts").toEqual([
    { number: "43", hash: (await chain.client.getBlock()).hash },
  ]);

  // Of the year in which the earlier version ran.
  const api = await startTestApi({ databaseUrl, env: { MAX_INDEX_LAG_SECONDS: "1000000000" } });
  const ask = async (path: string, sent = key) => {
    const response = await api.get(path, { headers: { "X-API-KEY": sent } });
    return [path, response.status, await response.text()];
  };
  const lists = [1, 2].map((version) => `/registry/v${version}/${vault}?chainId=${CHAIN_ID}`);
  const askAll = () => Promise.all([...answers.map(([path = ""]) => path), ...lists].map((path) => ask(path)));
  const expected = await askAll();
  expect(expected.filter(([, status]) => status !== 200)).toEqual([]);
  expect(expected.slice(0, answers.length).map(([path, , answer]) => [path, answer])).toEqual(answers);
  expect(expected.slice(-2).map(([, , list]) => JSON.parse(String(list)).length)).toEqual([3, 4]);
  const check = `/registry/v2/check/all?to=${hot}&from=${vault}&chainId=${CHAIN_ID}`;
  // The log of 0.1.0 lacks columns that these need.
  for (const path of [`${check}&block=43`, `/wallets/${vault}/history?chainId=${CHAIN_ID}`]) {
    expect(await ask(path)).toEqual([path, 503, expect.stringContaining("index is of an older version")]);
  }
  expect((await ask(answers.at(-1)?.[0] ?? "", revokedKey))[1]).toBe(401);
  expect(await readServedSchema(database)).toBe(old);

  let isOver = false;
  const wrong: unknown[] = [];
  const readers = [
    // A client of the API.
    async () => {
      for (; !isOver; await sleep(1)) {
        const got = await askAll();
        if (String(got) !== String(expected)) wrong.push(got);
      }
    },
    // A reader of the views.
    async () => {
      const reader = await connectClient(databaseUrl);
      for (; !isOver; await sleep(1)) {
        const { rows } = await reader.query("select count(*)::int from registry.delegation_v2 where vault = $1", [
          vault.toLowerCase(),
        ]);
        if (rows[0].count !== 4) wrong.push(rows);
      }
    },
  ].map((read) => read());

  await startIndexer({ databaseUrl, chains: [chain] });
  const isNew = async () => (await readServedSchema(database)) !== old;
  await waitUntil("the new index is served", isNew, 120);
  const isDropped = async () =>
    (await database.query("select to_regnamespace($1) as schema", [old])).rows[0].schema === null;
  await waitUntil("the old index is dropped", isDropped, 60);
  isOver = true;
  await Promise.all(readers);
  expect(wrong).toEqual([]);
  expect(await askAll()).toEqual(expected);

  // The new index follows the chain, and answers what the old one could not.
  const data = encodeV2("delegateAll", [hot, `0x${"0".repeat(64)}`, false]);
  await chain.client.sendTransaction({ account: vault, chain: null, to: v2, data, gas: 1_000_000n, gasPrice: 0n });
  await mine(chain);
  await waitUntilIndexed(database, chain);
  expect((await ask(check))[2]).toBe("false");
  expect((await ask(`${check}&block=43`))[2]).toBe("true");
});
