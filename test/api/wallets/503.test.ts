import { pino } from "pino";
import { expect } from "vitest";
import { Database } from "../../../api/database/database.ts";
import { parseApiSettings } from "../../../api/settings.ts";
import { Shards } from "../../../api/shards/shards.ts";
import { askNetworks } from "../../../api/wallets/ask-networks.ts";
import { history } from "../../../api/wallets/read-history.ts";
import { findNetworks } from "../../../api/wallets/wallet-parameters.ts";
import { createSampleDatabase, FRESH_FOR_A_DAY, HOT, startTestApi, VAULT } from "../../support/api.ts";
import { hideLogColumn, startChangedSamples } from "../../support/index-copy.ts";
import { test } from "../../support/test.ts";
import {
  askForged,
  askWallet,
  askWalletProblem,
  forgeCursor,
  type History,
  LISTS,
  setFinalBlock,
  type Vaults,
} from "../../support/wallets.ts";

test("a time or block that is not indexed yet", async ({ samples }) => {
  const { blocks } = await askWallet<Vaults>(samples, `${HOT}/vaults?chainId=1`);
  const path = `${HOT}/vaults?timestamp=${blocks[1]?.timestamp}&chainId=1`;
  expect(await askWalletProblem(samples, path)).toMatchObject({
    status: 503,
    detail: expect.stringMatching(/^Chain 1 \(Ethereum\) is indexed up to block \d+, of \d+, not yet beyond \d+\.$/),
  });
  expect((await askWalletProblem(samples, `${HOT}/vaults?block=999999&chainId=1`)).status).toBe(503);
});

test("a network that cannot be answered for; with partial=true, it is named", async () => {
  const { api } = await startChangedSamples((database, schema) =>
    database.query(`delete from ${schema}.indexed_block where chain_id = 137`),
  );
  for (const list of LISTS) {
    expect(await askWalletProblem(api, `${HOT}/${list}`)).toEqual({
      status: 503,
      detail: expect.stringMatching(
        /^Chain 137 \(Polygon\) is still being indexed: .* With partial=true, the answer has/,
      ),
    });
    const page = await askWallet(api, `${HOT}/${list}?partial=true`);
    expect(Object.keys(page.blocks)).toEqual(["1"]);
    expect(page.unanswered).toMatchObject([{ chainId: 137, problem: { status: 503, title: "Not indexed yet" } }]);
    const only = await askWalletProblem(api, `${HOT}/${list}?partial=true&chainId=137`);
    expect(only.status, "no network is left").toBe(503);
    expect((await askWallet(api, `${HOT}/${list}?chainId=1`)).unanswered).toEqual([]);
  }
  const { vaults } = await askWallet<Vaults>(api, `${HOT}/vaults?partial=true`);
  expect(vaults.map(({ chainId }) => chainId)).toEqual([1, 1]);
});

test("a network that an early page is without; with partial=true, it stays named on all pages", async () => {
  const { api, database, schema } = await startChangedSamples((database, schema) =>
    database.query(`create table missing as select * from ${schema}.indexed_block where chain_id = 1`),
  );
  for (const list of LISTS) {
    await database.query(`delete from ${schema}.indexed_block where chain_id = 1`);
    const wallet = list === "vaults" ? HOT : VAULT;
    const { next } = await askWallet(api, `${wallet}/${list}?partial=true&limit=1`);
    await database.query(`insert into ${schema}.indexed_block select * from missing`);
    const path = `${wallet}/${list}?limit=1&cursor=${next}`;
    const page = await askWallet(api, `${path}&partial=true`);
    expect(Object.keys(page.blocks)).toEqual(["137"]);
    expect(page.unanswered).toMatchObject([
      { chainId: 1, problem: { status: 503, detail: expect.stringContaining("on an earlier page: start again") } },
    ]);
    expect((await askWalletProblem(api, path)).status).toBe(503);
  }
});

test("a network of an early page that is not known any more, while its shard has not started", async ({
  samples,
  databaseUrl,
}) => {
  const { next } = await askWallet<History>(samples, `${VAULT}/history?limit=1`);
  const env = { ...FRESH_FOR_A_DAY, INDEX_SCHEMAS: "registry,later" };
  const starting = await startTestApi({ databaseUrl, env });
  const path = `${VAULT}/history?limit=1&cursor=${forgeCursor(next, { position: "1600000000.10.0.0.0" })}`;
  expect(await askWalletProblem(starting, path)).toMatchObject({
    status: 503,
    detail: expect.stringContaining('The chains of shard "later" are not known: it has not started.'),
  });
  expect(await askWalletProblem(samples, path)).toMatchObject({ status: 400, errors: ["cursor"] });
});

test("a shard that starts while the networks of another one are asked", async ({ onTestFinished }) => {
  const databaseUrl = await createSampleDatabase();
  const database = new Database(databaseUrl, pino({ enabled: false }));
  onTestFinished(() => database.close());
  const shards = new Shards(database, parseApiSettings({ INDEX_SCHEMAS: "registry,later" }));
  await shards.refresh();
  const read = async () => {
    await database.db.execute(
      "insert into indexer.index (schema, shard, started_at) values ('later_1', 'later', now())",
    );
    await database.db.execute(
      `insert into indexer.chain select (jsonb_populate_record(known, '{"schema": "later_1", "chain_id": 10}')).*
       from indexer.chain known where chain_id = 1`,
    );
    await shards.refresh();
    expect(shards.notStarted).toEqual([]);
    return [];
  };
  const asked = { chainId: [], registry: "both" as const };
  const values = { list: "history", wallet: VAULT, ...asked, partial: false, limit: 1 } as const;
  const chains = findNetworks(shards, asked);
  const answer = askNetworks({ read }, shards, { ...values, chains }, history.plan({ ...values, chains }, database));
  await expect(answer).rejects.toThrow('The chains of shard "later" are not known: it has not started.');
});

test("a block that a forged cursor calls final", async () => {
  const { api } = await startChangedSamples((database, schema) => setFinalBlock(database, schema, 40));
  const newest = Number((await api.get(`/registry/v2/${VAULT}`)).headers.get("X-Indexed-Block"));
  for (const list of LISTS) {
    const ofBlock = (block: number) => askForged(api, list, "block=finalized&chainId=1", { blocks: `1.${block}` });
    expect(await ofBlock(41)).toEqual({
      status: 503,
      detail: "Chain 1 (Ethereum) is final up to block 40, not yet up to block 41.",
    });
    expect(await ofBlock(newest + 1)).toEqual({
      status: 503,
      detail: `Chain 1 (Ethereum) is indexed up to block ${newest}, not yet up to block ${newest + 1}.`,
    });
  }
});

test.for(["was_active", "made_block"])("an older index without %s, not a short list", async (column) => {
  const { api } = await startChangedSamples((database) => hideLogColumn(database, column));
  expect(await askWalletProblem(api, `${VAULT}/history`)).toMatchObject({ status: 503 });
  expect(await askWalletProblem(api, `${VAULT}/vaults?timestamp=1000000000`)).toMatchObject({ status: 503 });
  expect((await api.get(`/wallets/${VAULT}/vaults`)).status).toBe(200);
});
