import type pg from "pg";
import { expect, test } from "vitest";
import { startTestApi } from "../../support/api.ts";
import { createRoleSettings, expectRights, runRoles } from "../../support/commands.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { addKey } from "../../support/keys.ts";
import { Random } from "../../support/random.ts";
import { ComparedChain } from "../../support/random-chain.ts";
import { connectClient, createDatabase, startIndexer, waitUntil, waitUntilIndexed } from "../../support/setup.ts";

const untilDropped = (database: pg.Client, schema: string) =>
  waitUntil("the old index is dropped", async () => {
    const { rows } = await database.query("select to_regnamespace($1) is null as dropped", [schema]);
    return rows[0].dropped;
  });

test("an indexer and an API with their own roles build an index in an empty database and replace it", async () => {
  const { env, urls } = createRoleSettings(await createDatabase());
  expect(await runRoles(env)).toMatchObject({ code: 0 });
  const subject = await ComparedChain.create(8453, new Random(11));
  const { local } = subject;
  await subject.mineRandomBlocks(40);
  const indexer = await startIndexer({ databaseUrl: urls.indexer, chains: [local] });
  const asIndexer = await connectClient(urls.indexer);
  await waitUntilIndexed(asIndexer, local);
  const api = await startTestApi({ databaseUrl: urls.api });
  const clients = { asIndexer, asApi: await connectClient(urls.api), asAnalyst: await connectClient(urls.analyst) };
  const { key } = await addKey(clients.asApi);
  await subject.expectSameAnswersOverHttp(api.url, key);
  await expectRights(clients, 8453);

  // A view whose columns change is recreated, and would lose grants on the view itself.
  const schema = await readServedSchema(asIndexer);
  await asIndexer.query("drop view registry.vault_v1; create view registry.vault_v1 as select 1 as other");
  await subject.mineRandomBlocks(2);
  await startIndexer({ databaseUrl: urls.indexer, chains: [local], env: { START_BLOCK_8453: "1" } });
  await indexer.ended;
  expect(await readServedSchema(asIndexer)).not.toBe(schema);
  await untilDropped(asIndexer, schema);
  await subject.mineRandomBlocks(2);
  await waitUntilIndexed(asIndexer, local);
  await subject.expectSameAnswersOverHttp(api.url, key);
  await expectRights(clients, 8453);
});

test("an indexer with its own role resumes an index that a superuser's indexer built", async () => {
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const subject = await ComparedChain.create(8453, new Random(12));
  const chains = [subject.local];
  await subject.mineRandomBlocks(20);
  const before = await startIndexer({ databaseUrl, chains });
  await waitUntilIndexed(database, subject.local);
  const schema = await readServedSchema(database);
  await before.stop();

  const { env, urls } = createRoleSettings(databaseUrl);
  expect(await runRoles(env)).toMatchObject({ code: 0, output: expect.stringContaining("handed over") });
  await subject.mineRandomBlocks(3);
  const indexer = await startIndexer({ databaseUrl: urls.indexer, chains });
  const api = await startTestApi({ databaseUrl: urls.api });
  await waitUntilIndexed(database, subject.local);
  expect(await readServedSchema(database)).toBe(schema);
  expect(indexer.output()).toContain("Detected crash recovery");
  await subject.expectSameAnswersOverHttp(api.url);
  expect((await runRoles(env)).output).not.toContain("handed over");
});
