import { execFile } from "node:child_process";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { BreakablePostgres } from "../../../faults/postgres.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { findIndexes } from "../../support/index-state.ts";
import { startIndexerProcess } from "../../support/indexer.ts";
import { Random } from "../../support/random.ts";
import { ComparedChain } from "../../support/random-chain.ts";
import { holdLogsAfter, startRpcProxy } from "../../support/rpc-proxy.ts";
import { waitUntil, waitUntilIndexed } from "../../support/setup.ts";

// Ponder does not wait until its rows are on disk: a Postgres that crashes loses the newest ones, but Ponder continues
// as if they were stored. A standby that takes over before it has received everything lacks them too.

/** Longest time that Postgres can be set to keep rows only in memory. */
const KEPT_IN_MEMORY_MS = 10_000;
const CRASHES = 2;
/** Ponder stores the changes of a range in parts. After this long without one it waits for logs. */
const QUIET_MS = 3_000;
/** Share of the checks to compare. Lists, which hold everything, are always compared. */
const COMPARED = 0.1;

/** Starts a Postgres that loses the rows of the last seconds when it crashes. */
const startForgetfulPostgres = async () => {
  const postgres = await BreakablePostgres.start();
  const data = await postgres.withClient(async (client) => {
    await client.query(`alter system set wal_writer_delay = ${KEPT_IN_MEMORY_MS}`);
    await client.query("alter system set wal_writer_flush_after = '1GB'");
    await client.query("select pg_reload_conf()");
    // Differs from its folder if the server's user has no access to it.
    const { rows } = await client.query("show data_directory");
    return String(rows[0].data_directory);
  });
  const copy = `${data}-copy`;
  onTestFinished(async () => {
    await postgres.remove();
    for (const path of [data, copy]) await rm(path, { recursive: true, force: true });
  });
  /** Copies a stopped cluster and its owner, which the server checks. */
  const copyCluster = async (from: string, to: string) => {
    await rm(to, { recursive: true, force: true });
    await promisify(execFile)("cp", ["-a", from, to]);
  };
  return {
    url: postgres.url,
    withClient: <T>(run: (client: pg.Client) => Promise<T>) => postgres.withClient(run),
    crash: async () => {
      await postgres.crash();
      await postgres.start();
    },
    /** Copies the cluster. */
    keepCopy: async () => {
      await postgres.stop();
      await copyCluster(data, copy);
      await postgres.start();
    },
    /** Fails over to a standby that has the copy and nothing newer. */
    takeCopy: async () => {
      await postgres.crash();
      await copyCluster(copy, data);
      await writeFile(join(data, "standby.signal"), "");
      await postgres.start();
      await postgres.withClient((client) => client.query("select pg_promote()"));
    },
  };
};

/** Indexes a chain with random blocks in such a Postgres. */
const indexIn = async (postgres: Awaited<ReturnType<typeof startForgetfulPostgres>>, seed: number, blocks: number) => {
  const random = new Random(seed);
  const subject = await ComparedChain.create(8453, random);
  await subject.mineRandomBlocks(blocks);
  subject.questions = subject.questions.filter(() => random.chance(COMPARED));
  const rpc = await startRpcProxy(subject.local.url);
  const chain = { chainId: subject.local.chainId, url: rpc.url };
  const indexer = await startIndexerProcess({ databaseUrl: postgres.url, chains: [chain] });
  /** Counts the stored changes. */
  const changes = () =>
    postgres.withClient(async (client) => {
      const [schema] = await findIndexes(client);
      if (!schema) return 0;
      const log = await client
        .query(`select count(*)::int from ${schema}.delegation_change`)
        .catch(() => ({ rows: [] }));
      return Number(log.rows[0]?.count ?? 0);
    });
  return {
    subject,
    indexer,
    rpc,
    caughtUp: () => postgres.withClient((client) => waitUntilIndexed(client, subject.local, { seconds: 120 })),
    newest: () =>
      postgres.withClient(async (client) => {
        const blocks = await client.query(`select number::int from ${await readServedSchema(client)}.indexed_block`);
        return Number(blocks.rows[0]?.number ?? 0);
      }),
    changes,
    /** Waits until the backfill has stored more changes, and waits for logs. Returns the number of changes. */
    stored: async ({ isHolding }: ReturnType<typeof holdLogsAfter>, before = 0) => {
      let [count, since] = [0, 0];
      await waitUntil("a part of history is stored", async () => {
        const now = await changes();
        if (now !== count) [count, since] = [now, Date.now()];
        return isHolding() && count > before && Date.now() - since > QUIET_MS;
      });
      return count;
    },
  };
};

test("the index has every published block after Postgres crashes, and after a lagging standby takes over", async () => {
  const postgres = await startForgetfulPostgres();
  const { subject, indexer, caughtUp, newest } = await indexIn(postgres, 53, 4);
  for (let crash = 0; crash < CRASHES; crash++) {
    await caughtUp();
    await subject.mineRandomBlocks(2);
    await caughtUp();
    const before = await newest();
    await postgres.crash();
    expect(await newest()).toBe(before);
    await subject.mineRandomBlocks(2);
    await caughtUp();
    await subject.expectSameAnswers(postgres.url, "registry", [1, 3]);
  }
  expect(indexer.output()).not.toContain("starting it again");

  await postgres.keepCopy();
  const kept = await newest();
  await subject.mineRandomBlocks(3);
  await caughtUp();
  expect(await newest()).toBeGreaterThan(kept);
  await postgres.takeCopy();
  await subject.mineRandomBlocks(2);
  await caughtUp();
  await subject.expectSameAnswers(postgres.url, "registry", [1, 3, 5]);
  expect(indexer.output()).toContain("another Postgres has taken over");
});

test("a backfill misses nothing when Postgres crashes", async () => {
  const postgres = await startForgetfulPostgres();
  const { subject, indexer, rpc, caughtUp, changes, stored } = await indexIn(postgres, 59, 70);
  const hold = holdLogsAfter(rpc, 30);
  const before = await stored(hold);
  await postgres.crash();
  expect(await changes()).toBeGreaterThanOrEqual(before);
  hold.release();

  await caughtUp();
  await subject.expectSameAnswers(postgres.url, "registry", [1, 20, 40]);
  expect(indexer.output()).toContain("The connection to the database was lost");
});

// Not with every seed: if the first row that Ponder stores after the gap is one that the standby never lost, Ponder ends
// by itself because of the duplicate, before Postgres can refuse it.
test("a backfill misses nothing when a lagging standby takes over", async () => {
  const postgres = await startForgetfulPostgres();
  const { subject, indexer, rpc, caughtUp, changes, stored } = await indexIn(postgres, 67, 150);
  let hold = holdLogsAfter(rpc, 30);
  const kept = await stored(hold);
  // While the indexer is suspended, Postgres itself stops Ponder from storing rows after a gap. Ponder waits for logs when
  // Postgres ends: in the middle of an event, it would end by itself.
  process.kill(indexer.pid, "SIGSTOP");
  try {
    await postgres.keepCopy();
    expect(await changes()).toBe(kept);
    const { release } = hold;
    hold = holdLogsAfter(rpc, 80);
    release();
    await stored(hold, kept);
    await postgres.takeCopy();
    expect(await changes()).toBe(kept);
    hold.release();
    await waitUntil("Ponder was refused", () => indexer.output().includes("another Postgres has taken over"));
    expect(await changes()).toBe(kept);
  } finally {
    hold.release();
    process.kill(indexer.pid, "SIGCONT");
  }

  await caughtUp();
  await subject.expectSameAnswers(postgres.url, "registry", [1, 40, 100]);
});
