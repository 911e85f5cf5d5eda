import { expect, test } from "vitest";
import { startTestApi } from "../../support/api.ts";
import { ComparedChain } from "../../support/compared-chain.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { startIndexerProcess } from "../../support/indexer.ts";
import { addKey } from "../../support/keys.ts";
import { Random } from "../../support/random.ts";
import { createAdministrator, createRoleSettings, runRoles } from "../../support/roles.ts";
import {
  connectClient,
  createDatabase,
  startIndexer,
  waitUntil,
  waitUntilAnalytics,
  waitUntilIndexed,
} from "../../support/setup.ts";

/** Advisory locks that indexers and APIs took in earlier versions, and the one that Ponder takes at its start. */
const ADVISORY_LOCKS = ["1684368485", "1634623852", "1835624306", "3853314791062309107"];

/** Changes the settings of the analyst's role as the analyst, which Postgres allows. */
const setOwnTimeouts = async (analystUrl: string, timeout: string) => {
  const session = await connectClient(analystUrl);
  await session.query("set default_transaction_read_only = off");
  for (const name of ["statement_timeout", "idle_in_transaction_session_timeout"]) {
    await session.query(`alter role current_user set ${name} = '${timeout}'`);
  }
  await session.end();
};

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
  // Postgres takes it for a number, which no interval accepts.
  await setOwnTimeouts(urls.analyst, "0x10000");
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
  await startIndexer({ databaseUrl: urls.indexer, chains, env: { ANALYST_MAX_SECONDS: "2" } });
  const api = await startTestApi({ databaseUrl: urls.api });
  await waitUntilIndexed(database, subject.local);
  const { key } = await addKey(await connectClient(urls.api));
  await subject.expectSameAnswersOverHttp(api.url, key);
  const { rows } = await database.query("select from pg_stat_activity where usename = $1", [roles.analyst]);
  expect(rows).toHaveLength(0);
});

test("a reorg does not wait for an analyst who has turned the timeouts of the role off", async () => {
  const databaseUrl = await createDatabase();
  const { env, urls } = createRoleSettings(databaseUrl);
  expect(await runRoles(env)).toMatchObject({ code: 0 });
  const database = await connectClient(databaseUrl);
  const subject = await ComparedChain.create(8453, new Random(22));
  await subject.mineRandomBlocks(10);
  await startIndexer({ databaseUrl: urls.indexer, chains: [subject.local], env: { ANALYST_MAX_SECONDS: "5" } });
  await waitUntilIndexed(database, subject.local);
  await waitUntilAnalytics(database);

  await setOwnTimeouts(urls.analyst, "0");
  const analyst = await connectClient(urls.analyst);
  let isEnded = false;
  analyst.on("end", () => {
    isEnded = true;
  });
  await analyst.query("begin; select * from analytics.changes; select * from analytics.delegations");
  await subject.chain.revertBlocks(3);
  await subject.mineRandomBlocks(4);
  await waitUntil("the analyst's session is ended", () => isEnded);
  await waitUntilIndexed(database, subject.local);
});

test("an indexer that cannot end sessions logs an error and indexes", async () => {
  const databaseUrl = await createDatabase();
  const { env, urls } = createRoleSettings(databaseUrl);
  expect(await runRoles(env)).toMatchObject({ code: 0 });
  const database = await connectClient(databaseUrl);
  await database.query("revoke execute on function pg_terminate_backend from public");
  const subject = await ComparedChain.create(8453, new Random(23));
  await subject.mineRandomBlocks(3);
  const indexer = await startIndexerProcess({ databaseUrl: urls.indexer, chains: [subject.local] });
  await waitUntilIndexed(database, subject.local);
  expect(indexer.output()).toMatch(/^\{"level":50,.*Cannot end long transactions of analysts: permission denied/m);
});
