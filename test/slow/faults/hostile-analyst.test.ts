import { expect, test } from "vitest";
import { startTestApi } from "../../support/api.ts";
import { ComparedChain } from "../../support/compared-chain.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { addKey } from "../../support/keys.ts";
import { Random } from "../../support/random.ts";
import { createAdministrator, createRoleSettings, runRoles } from "../../support/roles.ts";
import { connectClient, createDatabase, startIndexer, waitUntilIndexed } from "../../support/setup.ts";

/** Advisory locks that indexers and APIs took in earlier versions, and the one that Ponder takes at its start. */
const ADVISORY_LOCKS = ["1684368485", "1634623852", "1835624306", "3853314791062309107"];

/** Locks that an analyst can hold without a superuser's revocations. Each has its own session, without timeouts. */
const holdLocks = async (analystUrl: string, statements: readonly string[]) => {
  for (const statement of statements) {
    const session = await connectClient(analystUrl);
    await session.query("set statement_timeout = 0; set idle_in_transaction_session_timeout = 0");
    await session.query("set default_transaction_read_only = off");
    await session.query(statement);
  }
};

test("an indexer and an API start while an analyst holds every lock that the role can take", async () => {
  const databaseUrl = await createDatabase();
  const { env, roles, urls } = createRoleSettings(await createAdministrator(databaseUrl));
  expect(await runRoles(env)).toMatchObject({ code: 0 });
  const database = await connectClient(databaseUrl);
  await database.query(`alter role ${roles.analyst} set statement_timeout = '2s'`);
  const subject = await ComparedChain.create(8453, new Random(21));
  const chains = [subject.local];
  await subject.mineRandomBlocks(10);
  const first = await startIndexer({ databaseUrl: urls.indexer, chains });
  await waitUntilIndexed(database, subject.local);
  await first.stop();

  const schema = await readServedSchema(database);
  await holdLocks(urls.analyst, [
    `select pg_advisory_lock(hashtextextended('${schema}', 0))`,
    ...ADVISORY_LOCKS.map((key) => `select pg_advisory_lock(${key})`),
    "begin; select * from analytics.changes; select * from analytics.chains",
    "begin; lock table analytics.delegations in access share mode",
  ]);
  await subject.mineRandomBlocks(3);
  await startIndexer({ databaseUrl: urls.indexer, chains });
  const api = await startTestApi({ databaseUrl: urls.api });
  await waitUntilIndexed(database, subject.local);
  const { key } = await addKey(await connectClient(urls.api));
  await subject.expectSameAnswersOverHttp(api.url, key);
  const { rows } = await database.query("select from pg_stat_activity where usename = $1", [roles.analyst]);
  expect(rows).toHaveLength(0);
});
