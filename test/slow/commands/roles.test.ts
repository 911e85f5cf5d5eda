import type pg from "pg";
import { expect, test } from "vitest";
import { startApi } from "../../support/api.ts";
import { servedSchema } from "../../support/index-copy.ts";
import { addKey } from "../../support/keys.ts";
import { Random } from "../../support/random.ts";
import { expectRights, rolesFor, runRoles } from "../../support/roles.ts";
import { connect, createDatabase, startIndexer, until, untilIndexed } from "../../support/setup.ts";
import { Subject } from "../../support/subject.ts";

const untilDropped = (database: pg.Client, schema: string) =>
  until("the old index is dropped", async () => {
    const { rows } = await database.query("select to_regnamespace($1) is null as dropped", [schema]);
    return rows[0].dropped;
  });

test("an indexer and an API under their roles make an index in an empty database, and replace it by another", async () => {
  const { env, urls } = rolesFor(await createDatabase());
  expect(await runRoles(env)).toMatchObject({ code: 0 });
  const subject = await Subject.create(8453, new Random(11));
  const { local } = subject;
  await subject.mineRandomBlocks(40);
  const indexer = await startIndexer({ databaseUrl: urls.indexer, chains: [local] });
  const asIndexer = await connect(urls.indexer);
  await untilIndexed(asIndexer, local);
  const api = await startApi({ databaseUrl: urls.api });
  const clients = { asIndexer, asApi: await connect(urls.api), asAnalyst: await connect(urls.analyst) };
  const { key } = await addKey(clients.asApi);
  await subject.expectSameAnswersOverHttp(api.url, key);
  await expectRights(clients, 8453);

  // A view whose columns change is made anew, and would lose what was granted on it alone.
  const schema = await servedSchema(asIndexer);
  await asIndexer.query("drop view registry.vault_v1; create view registry.vault_v1 as select 1 as other");
  await subject.mineRandomBlocks(2);
  await startIndexer({ databaseUrl: urls.indexer, chains: [local], env: { START_BLOCK_8453: "1" } });
  await indexer.ended;
  expect(await servedSchema(asIndexer)).not.toBe(schema);
  await untilDropped(asIndexer, schema);
  await subject.mineRandomBlocks(2);
  await untilIndexed(asIndexer, local);
  await subject.expectSameAnswersOverHttp(api.url, key);
  await expectRights(clients, 8453);
});

test("an index that a superuser's indexer has made goes on under the roles", async () => {
  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  const subject = await Subject.create(8453, new Random(12));
  const chains = [subject.local];
  await subject.mineRandomBlocks(20);
  const before = await startIndexer({ databaseUrl, chains });
  await untilIndexed(database, subject.local);
  const schema = await servedSchema(database);
  await before.stop();

  const { env, urls } = rolesFor(databaseUrl);
  expect(await runRoles(env)).toMatchObject({ code: 0, output: expect.stringContaining("handed over") });
  await subject.mineRandomBlocks(3);
  const indexer = await startIndexer({ databaseUrl: urls.indexer, chains });
  const api = await startApi({ databaseUrl: urls.api });
  await untilIndexed(database, subject.local);
  expect(await servedSchema(database)).toBe(schema);
  expect(indexer.output()).toContain("Detected crash recovery");
  await subject.expectSameAnswersOverHttp(api.url);
  expect((await runRoles(env)).output).not.toContain("handed over");
});
