import { expect, test } from "vitest";
import { startTestApi } from "../../support/api.ts";
import { createAdministrator, createRoleSettings, runRoles } from "../../support/commands.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { startIndexerProcess } from "../../support/indexer.ts";
import { addKey } from "../../support/keys.ts";
import { Random } from "../../support/random.ts";
import { ComparedChain } from "../../support/random-chain.ts";
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

/** Creates a database with the roles of `npm run roles`, and a chain with some blocks. */
const setUp = async ({ blocks, isLimited = false }: { blocks: number; isLimited?: boolean }) => {
  const databaseUrl = await createDatabase();
  const settings = createRoleSettings(isLimited ? await createAdministrator(databaseUrl) : databaseUrl);
  expect(await runRoles(settings.env)).toMatchObject({ code: 0 });
  const subject = await ComparedChain.create(8453, new Random(21));
  await subject.mineRandomBlocks(blocks);
  const database = await connectClient(databaseUrl);
  const { roles, urls } = settings;
  return {
    database,
    roles,
    urls,
    subject,
    caughtUp: () => waitUntilIndexed(database, subject.local),
    indexer: { databaseUrl: urls.indexer, chains: [subject.local] },
  };
};

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
  const { database, roles, urls, subject, caughtUp, indexer } = await setUp({ blocks: 10, isLimited: true });
  // Postgres takes it for a number, which no interval accepts.
  await setOwnTimeouts(urls.analyst, "0x10000");
  const first = await startIndexer(indexer);
  await caughtUp();
  await first.stop();

  const schema = await readServedSchema(database);
  await holdLocks(urls.analyst, [
    `select pg_advisory_lock(hashtextextended('${schema}', 0))`,
    ...ADVISORY_LOCKS.map((key) => `select pg_advisory_lock(${key})`),
    "begin; select * from analytics.changes; select * from analytics.chains",
    "begin; lock table analytics.delegations in access share mode",
  ]);
  await subject.mineRandomBlocks(3);
  await startIndexer({ ...indexer, env: { ANALYST_MAX_SECONDS: "2" } });
  const api = await startTestApi({ databaseUrl: urls.api });
  await caughtUp();
  const { key } = await addKey(await connectClient(urls.api));
  await subject.expectSameAnswersOverHttp(api.url, key);
  const { rows } = await database.query("select from pg_stat_activity where usename = $1", [roles.analyst]);
  expect(rows).toHaveLength(0);
});

test("a reorg does not wait for an analyst who has turned the timeouts of the role off", async () => {
  const { database, urls, subject, caughtUp, indexer } = await setUp({ blocks: 10 });
  await startIndexer({ ...indexer, env: { ANALYST_MAX_SECONDS: "5" } });
  await caughtUp();
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
  await caughtUp();
});

test("an indexer that cannot end sessions logs an error and indexes", async () => {
  const { database, caughtUp, indexer } = await setUp({ blocks: 3 });
  await database.query("revoke execute on function pg_terminate_backend from public");
  const { output } = await startIndexerProcess(indexer);
  await caughtUp();
  expect(output()).toMatch(/^\{"level":50,.*Cannot end long transactions of analysts: permission denied/m);
});
