import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { pino } from "pino";
import { test as base, expect, onTestFinished } from "vitest";
import { Database } from "../../../api/database/database.ts";
import type { Statement } from "../../../api/database/statement.ts";
import { generateKey } from "../../../api/keys/api-key.ts";
import { indexSamples } from "../../../local/index-samples.ts";
import { type Api, CHECK, FRESH_FOR_A_DAY, startTestApi, VAULT } from "../../support/api.ts";
import { runExport } from "../../support/commands.ts";
import { signInVisitor } from "../../support/developers.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { addKey, revokeAddedKey } from "../../support/keys.ts";
import { seededRandom } from "../../support/random.ts";
import { ComparedChain } from "../../support/random-chain.ts";
import { startReplicatedPostgres } from "../../support/replicated-postgres.ts";
import { captureOutput } from "../../support/run.ts";
import { connectClient, startIndexer, waitUntil, waitUntilIndexed } from "../../support/setup.ts";

/** Share of the checks to compare. Lists, which hold everything, are always compared. */
const COMPARED = 0.3;

const test = base
  .extend("postgres", { scope: "file" }, async ({}, { onCleanup }) => {
    const postgres = await startReplicatedPostgres();
    onCleanup(postgres.stop);
    return postgres;
  })
  /** A database with the samples, on both servers. */
  .extend("samples", { scope: "file" }, async ({ postgres }) => {
    const database = await postgres.createDatabase("samples");
    await indexSamples({ databaseUrl: database.primaryUrl, chainIds: [1, 137], output: captureOutput().output });
    return database;
  });

const startOnReplica = ({ primaryUrl, replicaUrl }: { primaryUrl: string; replicaUrl: string }, env = {}) =>
  startTestApi({ databaseUrl: primaryUrl, env: { ...FRESH_FOR_A_DAY, DATABASE_READ_URL: replicaUrl, ...env } });

test("answers from a replica agree with the registries at their block, during reorgs and while replay is paused", async ({
  postgres,
}) => {
  const random = seededRandom(import.meta.filename);
  const urls = await postgres.createDatabase("differential");
  const { primaryUrl, replicaUrl } = urls;
  const primary = await connectClient(primaryUrl);
  // A replica may end a connection that conflicts with recovery; the pool opens another one.
  const replica = new pg.Pool({ connectionString: replicaUrl, max: 1 });
  replica.on("error", () => {});
  onTestFinished(() => replica.end());
  const subject = await ComparedChain.create(8453, random);
  subject.questions = subject.questions.filter(() => random.chance(COMPARED));
  await subject.mineRandomBlocks(20);
  await startIndexer({ databaseUrl: primaryUrl, chains: [subject.local] });
  const api = await startOnReplica(urls);
  const onPrimary = await startTestApi({ databaseUrl: primaryUrl });
  const { key } = await addKey(primary);
  await waitUntilIndexed(replica, subject.local);
  for (const asked of [api, onPrimary]) await waitUntil("the API is ready", async () => (await asked.get("/ready")).ok);
  await subject.expectSameAnswersOverHttp(api.url, key);

  for (let round = 0; round < 6; round++) {
    await subject.mineRandomBlocks(random.integer(1, 4));
    if (round % 2 === 1) {
      await waitUntilIndexed(primary, subject.local);
      const depth = random.integer(1, 5);
      await subject.chain.revertBlocks(depth);
      await subject.mineRandomBlocks(depth + 1);
    }
    await waitUntilIndexed(replica, subject.local, { seconds: 15 });
    if (round % 3 === 2) await subject.expectSameAnswersOverHttp(api.url, key);
  }

  // While replay is paused, answers stay at the same block and name it.
  await replica.query("select pg_wal_replay_pause()");
  const readState = async () => (await replica.query("select pg_get_wal_replay_pause_state() as state")).rows[0].state;
  await waitUntil("replay is paused", readState, 60, (state) => state === "paused");
  const { rows } = await replica.query("select number from registry.indexed_block");
  const stoodAt = BigInt(rows[0].number);
  await subject.mineRandomBlocks(12);
  await waitUntilIndexed(primary, subject.local);
  const head = await subject.local.client.getBlockNumber();
  await subject.expectSameAnswersOverHttp(api.url, key, { block: stoodAt });
  await subject.expectSameAnswersOverHttp(onPrimary.url, key, { block: head });
  const chainOf = async (asked: Api) => {
    const { chains } = (await (await asked.get("/status")).json()) as { chains: { indexedBlock: number }[] };
    return chains[0];
  };
  expect(await chainOf(api)).toMatchObject({ indexedBlock: Number(stoodAt), ready: true });
  expect(await chainOf(onPrimary)).toMatchObject({ indexedBlock: Number(head), ready: true });

  // The API refuses a replica that is too far behind, even if the primary is fresh.
  const strict = await startOnReplica(urls, { MAX_INDEX_LAG_SECONDS: "3" });
  const wallet = subject.world.wallets[0].address;
  const list = `/registry/v2/${wallet}?chainId=8453`;
  await waitUntil(
    "the replica is too old",
    async () => (await strict.get(list)).status,
    90,
    (status) => status === 503,
  );
  expect(await (await strict.get(list)).json()).toMatchObject({ type: "/docs#problem-stale-index" });
  expect((await strict.get("/ready")).status).toBe(503);
  expect(await chainOf(strict)).toMatchObject({ ready: false, indexedBlock: Number(stoodAt) });
  expect((await onPrimary.get(list)).status).toBe(200);

  // Keys are read from the primary: a new one works, a revoked one does not.
  const { key: newKey } = await addKey(primary, "new");
  const { key: endedKey } = await addKey(primary, "ended");
  await revokeAddedKey(primary, endedKey);
  const withKey = async (text: string) => (await api.get(list, { headers: { "X-API-KEY": text } })).status;
  expect(await withKey(newKey)).toBe(200);
  expect(await withKey(endedKey)).toBe(401);
  const { key: ownKey } = (await (await signInVisitor(api)).makeKey("mine")).json;
  expect(await withKey(ownKey)).toBe(200);

  // The resumed replay may cancel this statement.
  await replica.query("select pg_wal_replay_resume()").catch(() => {});
  await subject.mineRandomBlocks(1);
  await waitUntilIndexed(replica, subject.local);
  await waitUntil("the strict API is ready", async () => (await strict.get("/ready")).ok, 10);
  await subject.expectSameAnswersOverHttp(api.url, key);
  console.log(`${subject.answersOverHttp} answers compared over HTTP.`);
});

test("a replica serves long lists and exports, and statements that conflict with recovery are retried", async ({
  samples,
}) => {
  const { primaryUrl, replicaUrl } = samples;
  const primary = await connectClient(primaryUrl);
  const table = `${await readServedSchema(primary)}.delegation_v2`;
  await primary.query("set session_replication_role = replica");
  await primary.query(
    `insert into ${table} select (jsonb_populate_record(row, jsonb_build_object('token_id', i + 1000))).*
     from (select row from ${table} row where chain_id = 1 and vault = lower($1) and type = 'ERC721' limit 1) one,
       generate_series(1, 3000) i`,
    [VAULT],
  );
  const api = await startOnReplica(samples);
  const readList = async () =>
    ((await (await api.get(`/registry/v2/${VAULT}?numbers=string`)).json()) as unknown[]).length;
  await waitUntil("the replica has the long list", async () => (await readList()) > 3000, 10);
  for (const format of ["csv", "parquet"]) {
    const file = join(tmpdir(), `replica-${process.pid}.${format}`);
    onTestFinished(() => rm(file, { force: true }));
    const { code, output } = await runExport(replicaUrl, "--format", format, "--chain", "1", "--out", file);
    expect(code, output).toBe(0);
  }

  // The replica cancels a statement that reads a table which replay has to lock.
  const replica = new Database(replicaUrl, pino({ enabled: false }));
  onTestFinished(() => replica.close());
  const lock = () => primary.query(`begin; lock table ${table} in access exclusive mode; commit`);
  const slow: Statement<{ count: string }> = {
    name: "slow",
    text: "select count(pg_sleep(0.4)) from (select from registry.delegation_v2 limit 1) one",
    params: [],
  };
  const slowly = () => replica.read("checks", slow, {});
  const watch = await connectClient(replicaUrl);
  const conflicts = async () => {
    const { rows } = await watch.query(
      "select confl_lock from pg_stat_database_conflicts where datname = current_database()",
    );
    return Number(rows[0].confl_lock);
  };
  const before = await conflicts();
  const once = slowly();
  await sleep(150);
  await lock();
  expect(await once).toEqual([{ count: "1" }]);

  const opening = replica.openCursor(slow, {});
  await sleep(150);
  await lock();
  const { first, cursor } = await opening;
  expect(first).toEqual({ count: "1" });
  await cursor.close();
  expect(replica.poolStates().find(({ pool }) => pool === "cursors")).toMatchObject({ busy: 0 });

  const twice = slowly().catch((error) => error);
  for (let count = 0; count < 20; count++) {
    await sleep(50);
    await lock();
  }
  expect(await twice).toMatchObject({ problem: "overloaded", message: expect.stringContaining("index was changing") });
  await waitUntil("all of them were conflicts", async () => (await conflicts()) >= before + 4);

  // About every tenth conflict also ends the connection. Callers notice neither.
  const lines: string[] = [];
  const asked = new Database(replicaUrl, pino({ level: "error" }, { write: (line) => lines.push(line) }));
  onTestFinished(() => asked.close());
  const told = new Set<string>();
  let isOver = false;
  const askAgainAndAgain = async () => {
    for (; !isOver; await sleep(1)) {
      const text = "select count(*) from (select from registry.delegation_v2 limit 1) one";
      const counted = asked.read<{ count: string }>("checks", { name: "any", text, params: [] }, {});
      told.add(await counted.then(([row]) => String(row?.count)).catch(({ problem, message }) => problem ?? message));
    }
  };
  const asking = Promise.all(Array.from({ length: 12 }, askAgainAndAgain));
  const enough = (await conflicts()) + 60;
  const provoke = async () => {
    for (let count = 0; count < 20; count++) await lock();
    return conflicts();
  };
  await waitUntil("there were 60 conflicts", provoke, 150, (count) => count > enough);
  isOver = true;
  await asking;
  // A statement may be cancelled twice, or take too long on a busy machine.
  told.delete("overloaded");
  expect([...told]).toEqual(["1"]);
  expect(lines).toEqual([]);
});

test("the API returns 503 without its replica, and answers requests without keys without its primary", async ({
  postgres,
  samples,
}) => {
  const api = await startOnReplica(samples);
  await waitUntil("it answers", async () => (await api.get(CHECK)).ok, 10);
  const ask = (key: string) => api.get(CHECK, { headers: { "X-API-KEY": key } });

  await postgres.servers.replica.stop();
  const startedAt = Date.now();
  const refusal = await api.get(CHECK);
  expect([refusal.status, await refusal.json()]).toMatchObject([503, { type: "/docs#problem-database-unavailable" }]);
  expect(Date.now() - startedAt).toBeLessThan(2000);
  expect(await (await api.get("/status")).json()).toMatchObject({ database: "out of reach" });
  expect((await ask(generateKey())).status).toBe(401);
  expect(api.output()).toContain("The read replica is out of reach");
  expect(api.output()).not.toContain("The database is out of reach");
  postgres.servers.replica = await postgres.startReplica();
  await waitUntil("it answers again", async () => (await api.get(CHECK)).ok, 10);

  await postgres.servers.primary.stop();
  expect((await api.get(CHECK)).status).toBe(200);
  expect((await api.get("/ready")).status).toBe(200);
  const unknown = await ask(generateKey());
  expect([unknown.status, await unknown.json()]).toMatchObject([503, { type: "/docs#problem-database-unavailable" }]);
  expect(api.output()).toContain("The database is out of reach");
  postgres.servers.primary = await postgres.startPrimary();
  await waitUntil("keys are known again", async () => (await ask(generateKey())).status === 401, 10);
});
